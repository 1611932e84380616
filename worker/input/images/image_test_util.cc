#include "worker/input/images/image_test_util.h"

#include <cstdio>
#include <cstdlib>

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>

#include "glog/logging.h"

namespace millrace::testing {

worker::Image TestImage(size_t height, size_t width, size_t channels) {
  worker::Image image{height, width, channels, {}};
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(10 * y + 7 * x + 60 * c));
      }
    }
  }
  return image;
}

std::string Jpeg(const worker::Image& image, bool progressive) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT: the library's type.
  jpeg_mem_dest(&info, &out, &size);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.pixels.data()) +
                   info.next_scanline * image.width * image.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string bytes(reinterpret_cast<char*>(out), size);
  std::free(out);
  return bytes;
}

std::string Png(const worker::Image& image) {
  png_image info = {};
  info.version = PNG_IMAGE_VERSION;
  info.height = static_cast<png_uint_32>(image.height);
  info.width = static_cast<png_uint_32>(image.width);
  info.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(info), '\0');
  png_alloc_size_t size = bytes.size();
  CHECK(png_image_write_to_memory(&info, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

}  // namespace millrace::testing
