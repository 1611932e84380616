"""The tests that every device's models must pass: sources and data of a cc_test of that device."""

MODEL_TESTS = ["//worker/device/model_tests:" + name for name in [
    "compact_model_test.cc",
    "gradient_test.cc",
    "graph_model_test.cc",
    "model_test.cc",
    "next_values_test.cc",
    "outputs_test.cc",
    "reference_test.cc",
]]

MODEL_TESTS_DATA = ["//testing/reference:layers.txt"]
