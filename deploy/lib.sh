# Shell helpers of deploy/ and tests/: one line a step, its time, and the end of its log when it fails. Sourced.

LOG_DIR="$ROOT/build/log"
mkdir -p "$LOG_DIR"

# say TEXT...: a plain line.
say() { printf '%s\n' "$*"; }

# die TEXT...: says why and ends.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

_seconds() { date +%s; }

# step NAME COMMAND...: runs it with its output in build/log/NAME.log; prints one line with the time. On a terminal the
# line counts seconds (and shows the build's [n/m]) while the command runs.
step() {
  local name="$1" log start pid status=0
  shift
  log="$LOG_DIR/${name// /-}.log"
  start=$(_seconds)
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  _watch "$name" "$log" "$start" "$pid"
  wait "$pid" || status=$?
  [ -t 1 ] && printf '\r\033[K'
  if [ "$status" -eq 0 ]; then
    printf '  %-28s ok   %4ds\n' "$name" $(($(_seconds) - start))
    return 0
  fi
  printf '  %-28s FAILED after %ds\n\n' "$name" $(($(_seconds) - start))
  tail -n 30 "$log"
  printf '\nThe whole log: %s\n' "$log"
  return "$status"
}

# Progress while a step runs: a counting line on a terminal, else a word at every tenth of a build and once a minute.
_watch() {
  local name="$1" log="$2" start="$3" pid="$4" at tenth last_tenth=0 last_minute=0 elapsed=0
  while kill -0 "$pid" 2>/dev/null; do
    if [ "${elapsed:-0}" -lt 2 ]; then sleep 0.1; else sleep 1; fi
    elapsed=$(($(_seconds) - start))
    at=$(tail -c 2000 "$log" 2>/dev/null | tr '\r' '\n' | sed -n 's/^\(\[[0-9]*\/[0-9]*\]\).*/\1/p' | tail -n 1)
    if [ -t 1 ]; then
      printf '\r\033[K  %-28s ...  %4ds %s' "$name" "$elapsed" "$at"
      continue
    fi
    tenth=$(sed 's/[][]//g' <<<"$at" | awk -F/ 'NF == 2 && $2 > 20 { print int(10 * $1 / $2) }')
    if [ "${tenth:-0}" -gt "$last_tenth" ] && [ "$tenth" -lt 10 ]; then
      printf '  %-28s %s %ds\n' "$name" "$at" "$elapsed"
      last_tenth=$tenth
    elif [ $((elapsed / 60)) -gt "$last_minute" ]; then
      last_minute=$((elapsed / 60))
      [ -n "$at" ] || printf '  %-28s ...  %4ds\n' "$name" "$elapsed"
    fi
  done
}

# done_before NAME WHAT: the line of a step that had nothing to do.
done_before() { printf '  %-28s %s\n' "$1" "$2"; }
