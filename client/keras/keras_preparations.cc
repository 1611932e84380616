#include "client/keras/keras_preparations.h"

#include "absl/strings/match.h"

namespace millrace::client {
namespace {

struct Preparation {
  const char* class_name;
  const char* in_place;
};

constexpr char kWords[] =
    "Of a CSV column, vocabulary { words: [...] others: true } stands for it, with as_id: true for "
    "an Embedding; other formats must have the ids themselves. The first word has id 0, and words "
    "that are not listed have the last one, which in Keras is the first: rows of an Embedding that "
    "Keras has trained must be moved";
constexpr char kNothingForPictures[] =
    "Nothing stands for it: data.train.augmentation has horizontal_flip and crop_padding";

constexpr Preparation kPreparations[] = {
    {"Normalization",
     "Of a CSV column, number { subtract: MEAN divide: STDDEV } stands for it, and of pictures "
     "data.train.normalization { mean: [...] stddev: [...] }, of values from 0 to 1 where the "
     "format or divide_by divides them by 255; other features must be normalized in their files, "
     "unless one mean and one variance hold for all numbers, as a Rescaling has them"},
    {"StringLookup", kWords},
    {"IntegerLookup", kWords},
    {"Hashing",
     "Of a CSV column, hash { buckets: N } stands for it, with as_id: true for an Embedding; other "
     "formats must have the ids themselves. The hash is another one than Keras's: an Embedding "
     "that Keras has trained has its rows at other ids"},
    {"HashedCrossing",
     "Of CSV columns, cross { parts { name: \"A\" } parts { name: \"B\" } buckets: N } stands for "
     "it, with as_id: true for an Embedding; other formats must have the ids themselves. The hash "
     "is another one than Keras's: an Embedding that Keras has trained has its rows at other ids"},
    {"Discretization",
     "Of a CSV column, buckets { boundaries: [...] } stands for it, with as_id: true for an "
     "Embedding; other formats must have the ids themselves"},
    {"CategoryEncoding",
     "Of a CSV column, vocabulary, hash and buckets give a 1 at the id and 0 elsewhere, unless "
     "as_id is true; other formats must have these numbers themselves. Nothing counts ids or "
     "marks several at once"},
    {"TextVectorization",
     "Nothing stands for it: the data must have the ids of words (tfrecord's INT64, ragged: true "
     "where texts have any length; numpy's whole numbers)"},
    {"RandomFlip",
     "data.train.augmentation { horizontal_flip: true } stands for its mode \"horizontal\", and "
     "nothing for the others"},
    {"RandomTranslation",
     "data.train.augmentation { crop_padding: N } stands for it: pictures move by up to N pixels, "
     "and what is new is 0"},
    {"RandomCrop",
     "data.train.augmentation { crop_padding: N } stands for it where pictures are padded before "
     "they are cropped to the size that they had; nothing crops to a smaller one"},
    {"Resizing",
     "image_folder { height: H width: W } stands for it, bilinearly; pictures of other formats "
     "must have one size in their files"},
    {"CenterCrop", "Nothing stands for it: pictures must be cropped in their files"},
    {"FeatureSpace", "A CSV file's columns (data.train.csv.columns) stand for it, one by one"},
    {"MelSpectrogram", "Nothing stands for it: the files must have the spectrograms"},
    {"STFTSpectrogram", "Nothing stands for it: the files must have the spectrograms"},
    {"AugMix", kNothingForPictures},
    {"AutoContrast", kNothingForPictures},
    {"CutMix", kNothingForPictures},
    {"Equalization", kNothingForPictures},
    {"MixUp", kNothingForPictures},
    {"RandAugment", kNothingForPictures},
    {"Solarization", kNothingForPictures},
};

}  // namespace

std::string InPlaceOfPreparation(absl::string_view class_name) {
  for (const Preparation& one : kPreparations) {
    if (class_name == one.class_name) return one.in_place;
  }
  // RandomRotation, RandomZoom, RandomContrast and many more.
  const bool is_random = absl::StartsWith(class_name, "Random") &&
                         class_name != "RandomFourierFeatures" &&
                         !absl::StrContains(class_name, ">") && !absl::StrContains(class_name, " ");
  return is_random ? kNothingForPictures : "";
}

}  // namespace millrace::client
