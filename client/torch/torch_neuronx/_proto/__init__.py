"""Generated protobuf modules (see CMakeLists.txt): `program_pb2` is
proto/neurond/v1/program.proto.
"""
