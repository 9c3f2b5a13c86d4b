// Whose keys a session meets: those of its user and of its build of the client, no others.
#include "server/ring/request_handler.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/session/session_fixture.h"

namespace neurond::ring {
namespace {

template <class T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

class RequestHandlerTest : public ::testing::Test {
 protected:
  RequestHandlerTest() : programs_(host_), session_(host_, programs_) {
    host_.plugin.Register("p", {{kVector}, nullptr});
    state_.programs = host_.programs.get();
    state_.decode_program = [](std::string_view bytes) -> absl::StatusOr<Graph> {
      Graph graph;
      graph.name = bytes;
      graph.buffers = {kVector};
      graph.inputs = {{0, {neurond::DType::kF32, {4}, {1}, -1}}};
      OutputSpec output;
      output.value = 0;
      output.strides = {1};
      graph.outputs = {output};
      return graph;
    };
  }

  using Owner = RequestHandler::AliasOwner;
  RequestHandler Handler(uint32_t uid, const std::string& client_build) {
    return RequestHandler(state_, *session_.session, {0, 1}, Owner{uid, client_build});
  }
  static absl::StatusOr<std::string> Define(RequestHandler handler, const std::string& key,
                                            const std::string& meta, const std::string& program) {
    const DefineFrame fixed{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(meta.size()),
                            program.size()};
    return handler.Handle(FrameType::kDefine, Bytes(fixed) + key + meta + program);
  }
  static absl::StatusOr<std::string> Lookup(RequestHandler handler, const std::string& key) {
    const LookupFrame fixed{static_cast<uint32_t>(key.size()), 0};
    return handler.Handle(FrameType::kLookup, Bytes(fixed) + key);
  }

  TestHost host_;
  TestPrograms programs_;
  TestSession session_;
  DaemonState state_;
};

TEST_F(RequestHandlerTest, AKeyIsMetByItsUserAndClientBuildOnly) {
  ASSERT_TRUE(Define(Handler(7, "build"), "key", "meta", "program").ok());
  EXPECT_TRUE(Lookup(Handler(7, "build"), "key").ok());
  EXPECT_TRUE(absl::IsNotFound(Lookup(Handler(8, "build"), "key").status()));
  EXPECT_TRUE(absl::IsNotFound(Lookup(Handler(7, "other build"), "key").status()));
  EXPECT_TRUE(absl::IsNotFound(Lookup(Handler(7, ""), "key").status()));
  // Where one part ends and the next begins is part of the key.
  ASSERT_TRUE(Define(Handler(7, "a"), "b\nkey", "meta", "program").ok());
  EXPECT_TRUE(absl::IsNotFound(Lookup(Handler(7, "ab"), "\nkey").status()));
}

TEST_F(RequestHandlerTest, AKeyWithoutAProgramSaysSo) {
  const auto defined = Define(Handler(7, "build"), "key", "no such op", "");
  ASSERT_TRUE(defined.ok()) << defined.status();
  EXPECT_EQ(*defined, Bytes(DefineReplyFrame{0}));
  const auto known = Lookup(Handler(7, "build"), "key");
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(*known, Bytes(LookupReplyFrame{0, 10, 0}) + "no such op");
  // Neither key nor Program is no request.
  state_.decode_program = [](std::string_view) { return absl::InvalidArgumentError("empty"); };
  EXPECT_TRUE(absl::IsInvalidArgument(Define(Handler(7, "build"), "", "", "").status()));
}

TEST_F(RequestHandlerTest, AClientsProgramsStayAsLongAsItDoes) {
  const auto store = MakeProgramStore(*host_.cache, "", "build", 0);  // keeps what is held
  state_.programs = store.get();
  const auto define = [](RequestHandler& handler, const std::string& program) {
    const DefineFrame fixed{0, 0, program.size()};
    return handler.Handle(FrameType::kDefine, Bytes(fixed) + program);
  };
  RequestHandler other = Handler(8, "build");
  {
    RequestHandler handler = Handler(7, "build");
    ASSERT_EQ(*define(handler, "one"), Bytes(DefineReplyFrame{1}));
    ASSERT_TRUE(define(other, "two").ok());
    EXPECT_NE(store->Find(1), nullptr);
  }
  ASSERT_TRUE(define(other, "three").ok());
  EXPECT_EQ(store->Find(1), nullptr);
  EXPECT_NE(store->Find(2), nullptr);
}

}  // namespace
}  // namespace neurond::ring
