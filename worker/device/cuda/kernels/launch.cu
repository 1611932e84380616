#include <string>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

// After these every call of the process fails until it ends, or nothing better can be done than to
// begin again elsewhere. A device that has fallen off its bus gives an unknown error or one of the
// operating system; one that was taken away is unavailable, not initialized, or none; one whose
// fabric was started again is not ready.
bool DeviceIsLost(cudaError_t error) {
  switch (error) {
    case cudaErrorAssert:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
    case cudaErrorContextIsDestroyed:
    case cudaErrorDeviceUninitialized:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorMpsClientTerminated:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorNoDevice:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorOperatingSystem:
    case cudaErrorSystemNotReady:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Error::Kind KindOf(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) return Error::kMemory;
  return DeviceIsLost(error) ? Error::kLost : Error::kOther;
}

}  // namespace

std::string CudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // Otherwise the runtime tells of it again.
  throw Error(KindOf(error), std::string(call) + ": " + cudaGetErrorName(error) + ": " +
                                 cudaGetErrorString(error));
}

}  // namespace millrace::cuda
