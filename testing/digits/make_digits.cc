// Makes handwritten-like digits in MNIST's format:
//   make_digits --out=DIR [--train=6000] [--evaluate=1000] [--seed=1] [--gzip]
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "testing/digits/digit_set.h"

int main(int argc, char** argv) {
  std::string out;
  millrace::testing::DigitFilesOptions options;
  CLI::App app{"Makes handwritten-like digits in MNIST's file format."};
  app.add_option("--out", out, "Folder for the four files; made where it is absent")->required();
  app.add_option("--train", options.train, "Digits to train with")->capture_default_str();
  app.add_option("--evaluate", options.evaluate, "Held-out digits")->capture_default_str();
  app.add_option("--seed", options.seed, "The same seed makes the same digits")
      ->capture_default_str();
  app.add_flag("--gzip", options.gzip, "Compress the files and add .gz to their names");
  CLI11_PARSE(app, argc, argv);

  if (absl::Status status = millrace::testing::WriteDigitFiles(out, options); !status.ok()) {
    std::cerr << "make_digits: " << status.message() << "\n";
    return 1;
  }
  std::cout << "Wrote " << options.train << " digits to train with and " << options.evaluate
            << " to evaluate with to " << out << "\n";
  return 0;
}
