"""Each example runs as it stands, on data that a machine without a network has, and learns what is in them."""

import subprocess
import unittest

import harness

GENERATED = ["census_csv", "census_wide_deep", "image_folder", "movielens_mf", "regression_csv", "two_inputs"]


class ExamplesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.data = harness.temporary_directory()
        subprocess.run(
            ["testing/example_data/make_example_data", f"--out={cls.data}"], check=True, stdout=subprocess.DEVNULL)

    def train(self, name, data=None, *arguments):
        result = harness.millrace(
            "train", f"examples/{name}.textproto", f"--data={data or self.data / name}", "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        final = harness.final_state(result)
        self.assertEqual(final["state"], "SUCCEEDED")
        print(name, final["step"], final["metrics"])
        return final["metrics"]

    def test_each_is_valid_with_its_data(self):
        for name in GENERATED:
            with self.subTest(name):
                result = harness.millrace("validate", f"examples/{name}.textproto", f"--data={self.data / name}")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("memory of a worker", result.stdout)

    # The bounds leave room for the order in which asynchronous steps happen to be applied; the figures behind them
    # are in the examples' comments.

    def test_census_of_made_up_people(self):
        metrics = self.train("census_csv")
        self.assertGreater(metrics["eval_accuracy"], 0.78)
        self.assertGreater(metrics["eval_auc"], 0.77)

    def test_wide_and_deep_is_better_than_the_linear_model(self):
        metrics = self.train("census_wide_deep")
        self.assertGreater(metrics["eval_accuracy"], 0.80)
        self.assertGreater(metrics["eval_auc"], 0.81)

    def test_pictures_in_folders_are_told_apart(self):
        self.assertGreater(self.train("image_folder")["eval_accuracy"], 0.90)

    def test_ratings_are_predicted_almost_as_well_as_their_error_allows(self):
        metrics = self.train("movielens_mf")
        self.assertLess(metrics["eval_rmse"], 0.48)
        self.assertGreater(metrics["eval_rmse"], 0.40)

    def test_regression_comes_near_the_error_of_its_rows(self):
        metrics = self.train("regression_csv")
        self.assertLess(metrics["eval_rmse"], 1.3)
        self.assertGreater(metrics["eval_rmse"], 0.95)
        self.assertAlmostEqual(metrics["eval_loss"], metrics["eval_rmse"] ** 2)

    def test_both_inputs_say_more_than_one(self):
        metrics = self.train("two_inputs")
        self.assertGreater(metrics["eval_digit_accuracy"], 0.95)
        self.assertGreater(metrics["eval_by_picture_accuracy"], 0.85)
        self.assertLess(metrics["eval_digit_loss"], metrics["eval_by_picture_loss"])
        # Of a pitch whose standard deviation is 1; no model can get below 1/3.
        self.assertLess(metrics["eval_pitch_rmse"], 0.7)
        self.assertGreater(metrics["eval_pitch_rmse"], 0.3)
        self.assertAlmostEqual(
            metrics["eval_loss"], metrics["eval_digit_loss"] + 0.5 * metrics["eval_pitch_loss"] +
            0.3 * metrics["eval_by_picture_loss"])

    def test_census_as_it_is_published(self):
        # Keras, with the same model: 0.858 and 0.912.
        metrics = self.train("census_wide_deep", harness.real_data("census"))
        self.assertGreater(metrics["eval_accuracy"], 0.852)
        self.assertGreater(metrics["eval_auc"], 0.908)

    def test_a_few_pictures_of_cifar_10(self):
        # A thousand pictures of ten classes: far better than chance, and no more.
        metrics = self.train("image_folder", harness.real_data("cifar-10-images"))
        self.assertGreater(metrics["eval_accuracy"], 0.25)


if __name__ == "__main__":
    harness.main()
