// libjpeg reports an error by calling a function that must not return: ours leaves by longjmp, to
// where the library was called. What a jump passes over is not destroyed, so the functions that
// call the library, Try*, have no object with a destructor, and change none of their own variables
// after setjmp. What they need is in JpegDecoder, which lives outside of them, memory for the
// pixels included.
#include <csetjmp>
#include <cstdio>
#include <string>

// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/input/images/decode_image.h"

namespace millrace::worker {
namespace {

// The library's part comes first, and is what its functions are given.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool damaged;
};

JpegErrors* ErrorsOf(j_common_ptr info) { return reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void LeaveLibrary(j_common_ptr info) {
  JpegErrors* errors = ErrorsOf(info);
  errors->manager.format_message(info, errors->message);
  std::longjmp(errors->jump, 1);
}

// Of what the library goes on after, this means that pixels are made up.
bool IsDamage(int code) {
  return code == JWRN_BOGUS_PROGRESSION || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC || code == JWRN_NOT_SEQUENTIAL;
}

void NoteWarning(j_common_ptr info, int level) {
  JpegErrors* errors = ErrorsOf(info);
  if (level >= 0 || errors->damaged || !IsDamage(errors->manager.msg_code)) return;
  errors->manager.format_message(info, errors->message);
  errors->damaged = true;
}

void PrintNothing(j_common_ptr /*info*/) {}

class JpegDecoder {
 public:
  explicit JpegDecoder(absl::Span<const uint8_t> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = LeaveLibrary;
    errors_.manager.emit_message = NoteWarning;
    errors_.manager.output_message = PrintNothing;
  }

  // Also after an error, and where the library has made nothing yet.
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }

  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  absl::StatusOr<Image> Decode(bool grey) {
    if (!TryReadHeader()) return Damaged();
    MILLRACE_RETURN_IF_ERROR(CheckImageSize(info_.image_height, info_.image_width, bytes_.size()));
    info_.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    Image image;
    image.height = info_.image_height;
    image.width = info_.image_width;
    image.channels = grey ? 1 : 3;
    image.pixels.resize(image.height * image.width * image.channels);
    if (!TryReadPixels(image.pixels.data(), image.width * image.channels) || errors_.damaged) {
      return Damaged();
    }
    return image;
  }

 private:
  bool TryReadHeader() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, bytes_.data(), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  // REQUIRES: the header is read; at `pixels` is room for image_height rows of `row_bytes`.
  bool TryReadPixels(uint8_t* pixels, size_t row_bytes) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
      if (errors_.damaged) return false;
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  absl::Status Damaged() const {
    return absl::InvalidArgumentError(
        absl::StrCat("a JPEG file that cannot be decoded: ", PrintableName(errors_.message)));
  }

  const absl::Span<const uint8_t> bytes_;
  jpeg_decompress_struct info_ = {};
  JpegErrors errors_ = {};
};

}  // namespace

absl::StatusOr<Image> DecodeJpeg(absl::Span<const uint8_t> bytes, bool grey) {
  return JpegDecoder(bytes).Decode(grey);
}

}  // namespace millrace::worker
