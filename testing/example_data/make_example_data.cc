// Makes small data for examples, each in a folder that is called as the example:
//   make_example_data --out=DIR [--seed=1]
#include <cstdint>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "testing/example_data/example_data.h"

int main(int argc, char** argv) {
  std::string out;
  uint64_t seed = 1;
  CLI::App app{"Makes small data for the examples."};
  app.add_option("--out", out, "Folder for a folder for each example; made where it is absent")
      ->required();
  app.add_option("--seed", seed, "The same seed makes the same data")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  if (absl::Status status = millrace::testing::WriteExampleData(out, seed); !status.ok()) {
    std::cerr << "make_example_data: " << status.message() << "\n";
    return 1;
  }
  std::cout << "Wrote the data of census_csv, census_wide_deep, image_folder, movielens_mf, "
               "regression_csv and two_inputs to "
            << out << "\n";
  return 0;
}
