#include "worker/device/cuda/layer_test_util.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cpu/members.h"
#include "worker/device/cuda/cuda_ids.h"
#include "worker/device/cuda/describe.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"
#include "worker/model/layer_traits.h"
#include "worker/model/walk.h"

namespace millrace::worker {

namespace {

std::vector<float> RandomFloats(size_t count, std::mt19937* random) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>((*random)())) / 2147483648.0f;
  }
  return values;
}

// Plans the layer and fills in all but what it takes.
LayerCase PlanCase(const std::string& spec, LayerPlan plan, size_t batch, std::mt19937* random) {
  LayerCase c;
  CHECK(google::protobuf::TextFormat::ParseFromString(spec, &plan.spec)) << spec;
  plan.spec.set_name("layer");
  plan.sources.resize(plan.inputs.size());
  std::vector<VariableSpec> variables;
  const absl::Status status = PlanLayer(&plan, &variables);
  CHECK(status.ok()) << spec << ": " << status;
  c.batch = batch;
  for (size_t role = 0; role < plan.variables.size(); ++role) {
    c.parameters.emplace_back();
    if (plan.variables[role] < 0) continue;
    const auto& shape = variables[plan.variables[role]].shape();
    c.parameters[role] = RandomFloats(ElementCount({shape.begin(), shape.end()}), random);
    if (!plan.spec.has_batch_normalization() || role != kMovingVariance) continue;
    for (float& variance : c.parameters[role]) variance = 0.5f + std::abs(variance);
  }
  c.plan = std::move(plan);
  c.dy = RandomFloats(batch * ElementCount(c.plan.output), random);
  return c;
}

}  // namespace

LayerCase MakeLayerCase(const std::string& spec, const std::vector<Shape>& inputs, size_t batch,
                        bool trainable) {
  std::mt19937 random(17);
  LayerPlan plan;
  plan.inputs = inputs;
  plan.trainable = trainable;
  LayerCase c = PlanCase(spec, std::move(plan), batch, &random);
  for (const Shape& input : inputs) {
    c.x.push_back(RandomFloats(batch * ElementCount(input), &random));
    c.asked.push_back(true);
  }
  return c;
}

LayerCase MakeEmbeddingCase(const std::string& spec, const Shape& input, size_t batch,
                            const std::vector<size_t>& lengths, bool trainable) {
  std::mt19937 random(18);
  LayerPlan plan;
  plan.ragged = !lengths.empty();
  plan.inputs = {plan.ragged ? Shape() : input};
  plan.takes_ids = true;
  plan.trainable = trainable;
  LayerCase c = PlanCase(spec, std::move(plan), batch, &random);
  c.asked = {false};
  size_t count = batch * ElementCount(input);
  if (c.plan.ragged) {
    count = 0;
    for (const size_t length : lengths) c.ids.ends.push_back(count += length);
  }
  for (size_t i = 0; i < count; ++i) {
    c.ids.ids.push_back(random() % c.plan.spec.embedding().input_dim());
  }
  return c;
}

void UseWholeNumbers(LayerCase* c) {
  const auto round = [](std::vector<float>* values) {
    for (float& value : *values) value = std::round(4 * value);
  };
  for (auto& values : c->x) round(&values);
  for (auto& values : c->parameters) round(&values);
  round(&c->dy);
}

namespace {

class CpuGradients final : public GradientSink {
 public:
  CpuGradients(const LayerCase& c, LayerResult* result) : case_(c), result_(result) {
    result->gradients.resize(c.parameters.size());
    buffers_.resize(c.parameters.size());
  }

  absl::Span<float> Buffer(size_t variable) override {
    const size_t role = RoleOf(variable);
    buffers_[role].resize(case_.parameters[role].size());
    return absl::MakeSpan(buffers_[role]);
  }

  void Finished(size_t variable) override {
    result_->gradients[RoleOf(variable)] = buffers_[RoleOf(variable)];
  }

 private:
  size_t RoleOf(size_t variable) const {
    const auto& all = case_.plan.variables;
    return std::find(all.begin(), all.end(), static_cast<int>(variable)) - all.begin();
  }

  const LayerCase& case_;
  LayerResult* const result_;
  std::vector<std::vector<float>> buffers_;
};

}  // namespace

LayerResult RunOnCpu(const LayerCase& c) {
  LayerResult result;
  CpuContext context;
  std::vector<CpuBuffer> buffers;
  for (const auto& values : c.parameters) {
    std::copy(values.begin(), values.end(), buffers.emplace_back(values.size()).data());
  }
  CpuParameters parameters;
  for (const CpuBuffer& buffer : buffers) parameters.Add(buffer.size() == 0 ? nullptr : &buffer);
  const LayerTraits traits = TraitsOf(c.plan);
  const std::unique_ptr<CpuLayer> layer =
      MakeCpuLayer(&context, c.plan, c.index, parameters,
                   std::find(c.asked.begin(), c.asked.end(), true) != c.asked.end());
  CpuGradients gradients(c, &result);
  std::vector<float> kept(traits.kept_by_example * c.batch + traits.kept);
  const std::vector<Tensor> features = {c.ids};
  CpuPass pass;
  pass.batch = c.batch;
  pass.training = c.training;
  pass.seed = c.seed;
  pass.gradients = &gradients;
  pass.features = &features;
  pass.kept = kept.data();
  std::vector<const float*> x;
  std::vector<float*> dx;
  for (const auto& values : c.x) x.push_back(c.one_value ? c.x[0].data() : values.data());
  x.resize(c.plan.inputs.size(), nullptr);
  for (size_t k = 0; k < x.size(); ++k) {
    result.dx.emplace_back(c.asked[k] ? c.x[k].size() : 0);
    dx.push_back(c.asked[k] ? result.dx[k].data() : nullptr);
  }
  result.y.resize(c.dy.size());
  layer->Prepare(c.batch);
  layer->Forward(pass, x, result.y.data());
  std::vector<float> dy = c.dy;
  for (size_t i = 0; c.then == RELU && i < dy.size(); ++i) {
    if (!(result.y[i] > 0)) dy[i] = 0;
    if (result.y[i] < 0) result.y[i] = 0;
  }
  if (!c.training) return {result.y, {}, {}};
  layer->Backward(pass, x, result.y.data(), dy.data(), absl::MakeConstSpan(dx));
  return result;
}

namespace {

ForwardStep StepOf(const LayerCase& c) {
  ForwardStep step;
  step.layer = c.index;
  step.then = c.then;
  return step;
}

// A layer on the GPU, with all that it takes.
class GpuRun final : public cuda::Gradients {
 public:
  GpuRun(const LayerCase& c, bool in_place)
      : case_(c),
        traits_(TraitsOf(c.plan, c.then)),
        in_place_(in_place),
        gpu_(OpenTestGpu({.deterministic = c.deterministic})),
        layer_(MakeCudaLayer(gpu_.get(), c.plan, StepOf(c), c.precision)),
        workspace_(gpu_.get(), layer_->WorkspaceBytes(c.batch)),
        carried_(gpu_.get(), layer_->CarriedBytes(c.batch)),
        kept_(gpu_.get(), (traits_.kept_by_example * c.batch + traits_.kept) * sizeof(float)),
        seed_(OnDevice(gpu_.get(), std::vector<uint64_t>{c.seed})),
        gradients_(c.parameters.size()) {
    layer_->Prepare(c.batch, /*training=*/true);
    for (const auto& values : c.x) {
      x_.push_back(c.one_value && !x_.empty() ? x_.front() : OnDevice(gpu_.get(), values));
    }
    for (const auto& values : c.parameters) parameters_.push_back(OnDevice(gpu_.get(), values));
    if (c.plan.takes_ids) PlaceIds();
    pass_.batch = c.batch;
    pass_.training = c.training;
    pass_.seed = seed_->As<uint64_t>();
    pass_.ids = ids_.data();
    pass_.kept = kept_.As();
    if (c.training) pass_.carried = carried_.As<void>();
    pass_.workspace = workspace_.As<void>();
    pass_.gradients = this;
    for (size_t role = 0; role < std::max<size_t>(parameters_.size(), 2); ++role) {
      const bool has = role < parameters_.size() && parameters_[role]->bytes() > 0;
      parameter_places_.push_back(has ? parameters_[role]->As() : nullptr);
    }
    pass_.parameters = parameter_places_.data();
  }

  LayerResult Run() {
    Forward();
    if (case_.training) Backward();
    return result_;
  }

 private:
  void PlaceIds() {
    const Tensor& tensor = case_.ids;
    const bool pooled = case_.plan.spec.embedding().pooling() != Embedding::NONE;
    const size_t ids_of_row = pooled ? ElementCount(case_.plan.input()) : 1;
    std::vector<size_t> order(tensor.ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return tensor.ids[a] < tensor.ids[b]; });
    std::vector<int64_t> sorted_ids, sorted_rows;
    for (const size_t i : order) {
      const auto after = std::upper_bound(tensor.ends.begin(), tensor.ends.end(), i);
      const int64_t row = after - tensor.ends.begin();
      sorted_ids.push_back(tensor.ids[i]);
      sorted_rows.push_back(case_.plan.ragged ? row : static_cast<int64_t>(i / ids_of_row));
    }
    id_memory_.push_back(OnDevice(gpu_.get(), tensor.ids));
    id_memory_.push_back(OnDevice(gpu_.get(), tensor.ends));
    id_memory_.push_back(OnDevice(gpu_.get(), sorted_ids));
    id_memory_.push_back(OnDevice(gpu_.get(), sorted_rows));
    id_memory_.push_back(OnDevice(gpu_.get(), std::vector<uint64_t>{tensor.ids.size()}));
    ids_.resize(2);
    cuda::Ids& ids = ids_[IdSlot(/*feature=*/0, pooled)];
    ids.ids = id_memory_[0]->As<int64_t>();
    ids.ends = case_.plan.ragged ? id_memory_[1]->As<uint64_t>() : nullptr;
    if (case_.deterministic) {
      ids.sorted_ids = id_memory_[2]->As<int64_t>();
      ids.sorted_rows = id_memory_[3]->As<int64_t>();
    }
    ids.count = id_memory_[4]->As<uint64_t>();
    ids.most = tensor.ids.size() + 100;  // There is room for more.
  }

  std::vector<const float*> Inputs() const {
    std::vector<const float*> x;
    for (const auto& memory : x_) x.push_back(memory->As());
    x.resize(case_.plan.inputs.size(), nullptr);
    return x;
  }

  void Forward() {
    // In training an input that the backward pass takes does not make room.
    const bool in_place =
        in_place_ && traits_.in_place && !(case_.training && traits_.keeps_inputs);
    y_ = in_place ? x_.front()
                  : std::make_shared<DeviceMemory>(gpu_.get(), case_.dy.size() * sizeof(float));
    layer_->Forward(pass_, Inputs().data(), y_->As());
    result_.y = y_->Values();
    workspace_.Spoil();
  }

  // Where the gradient by an input goes.
  std::shared_ptr<DeviceMemory> GradientPlace(size_t input, bool* taken) {
    if (!case_.asked[input]) return nullptr;
    const bool free = !*taken || traits_.passes_gradient_on;
    if (in_place_ && traits_.gradient_in_place && free &&
        case_.x[input].size() == case_.dy.size()) {
      *taken = true;
      return dy_;
    }
    return std::make_shared<DeviceMemory>(gpu_.get(), case_.x[input].size() * sizeof(float));
  }

  void Backward() {
    if (!traits_.keeps_inputs) {
      for (const auto& memory : x_) {
        if (memory != y_) memory->Spoil();
      }
    }
    if (!traits_.keeps_output) y_->Spoil();
    dy_ = OnDevice(gpu_.get(), case_.dy);
    std::vector<std::shared_ptr<DeviceMemory>> places;
    std::vector<float*> dx;
    bool taken = false;
    for (size_t k = 0; k < case_.asked.size(); ++k) {
      places.push_back(GradientPlace(k, &taken));
      dx.push_back(places[k] == nullptr ? nullptr : places[k]->As());
    }
    result_.gradients.resize(gradients_.size());
    layer_->Backward(pass_, Inputs().data(), y_->As(), dy_->As(), dx.data());
    for (const auto& place : places) {
      result_.dx.push_back(place == nullptr ? std::vector<float>() : place->Values());
    }
  }

  size_t RoleOf(int variable) const {
    const auto& all = case_.plan.variables;
    return std::find(all.begin(), all.end(), variable) - all.begin();
  }

  float* Buffer(int variable) override {
    const size_t role = RoleOf(variable);
    if (gradients_[role] == nullptr) {
      gradients_[role] =
          std::make_unique<DeviceMemory>(gpu_.get(), case_.parameters[role].size() * sizeof(float));
    }
    return gradients_[role]->As();
  }

  void Finished(int variable) override {
    const size_t role = RoleOf(variable);
    EXPECT_TRUE(result_.gradients[role].empty()) << "role " << role << " is finished again";
    result_.gradients[role] = gradients_[role]->Values();
  }

  const LayerCase& case_;
  const LayerTraits traits_;
  const bool in_place_;
  const std::unique_ptr<cuda::Gpu> gpu_;
  const std::unique_ptr<cuda::Layer> layer_;
  DeviceMemory workspace_;
  DeviceMemory carried_;
  DeviceMemory kept_;
  const std::unique_ptr<DeviceMemory> seed_;
  std::vector<std::shared_ptr<DeviceMemory>> x_;
  std::vector<std::unique_ptr<DeviceMemory>> parameters_;
  std::vector<const float*> parameter_places_;
  std::vector<std::unique_ptr<DeviceMemory>> id_memory_;
  std::vector<cuda::Ids> ids_;
  std::shared_ptr<DeviceMemory> y_;
  std::shared_ptr<DeviceMemory> dy_;
  std::vector<std::unique_ptr<DeviceMemory>> gradients_;
  cuda::Pass pass_;
  LayerResult result_;
};

}  // namespace

LayerResult RunOnGpu(const LayerCase& c, bool in_place) { return GpuRun(c, in_place).Run(); }

namespace {

void ExpectCloseNumbers(const std::vector<float>& actual, const std::vector<float>& expected,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = actual[i];
    const double b = expected[i];
    const bool close = std::isfinite(b) ? std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))
                                        : a == b || (std::isnan(a) && std::isnan(b));
    ASSERT_TRUE(close) << what << "[" << i << "] of " << expected.size() << ": " << a << ", not "
                       << b;
  }
}

bool HaveSameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

// A GPU's arithmetic makes one NaN of all, where what only stays in its place keeps its bits.
bool HaveSameBitsOrAreNan(float a, float b) {
  return HaveSameBits(a, b) || (std::isnan(a) && std::isnan(b));
}

constexpr char kOutput[] = "y";

template <typename Compare>
void ForEachResult(const LayerResult& actual, const LayerResult& expected, const Compare& compare) {
  compare(actual.y, expected.y, kOutput);
  ASSERT_EQ(actual.dx.size(), expected.dx.size());
  for (size_t k = 0; k < expected.dx.size(); ++k) {
    compare(actual.dx[k], expected.dx[k], "dx " + std::to_string(k));
  }
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (size_t role = 0; role < expected.gradients.size(); ++role) {
    compare(actual.gradients[role], expected.gradients[role], "gradient " + std::to_string(role));
  }
}

}  // namespace

void ExpectClose(const LayerResult& actual, const LayerResult& expected,
                 const Tolerance& tolerance) {
  ForEachResult(actual, expected, [&](const auto& a, const auto& b, const std::string& what) {
    ExpectCloseNumbers(a, b, what == kOutput ? tolerance.y : tolerance.gradients, what);
  });
}

template <typename Same>
void ExpectSameBy(const LayerResult& actual, const LayerResult& expected, const Same& same) {
  ForEachResult(actual, expected, [&](const auto& a, const auto& b, const std::string& what) {
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(), same))
        << what << " has other bits";
  });
}

void ExpectSame(const LayerResult& actual, const LayerResult& expected) {
  ExpectSameBy(actual, expected, HaveSameBits);
}

void ExpectLikeCpu(const LayerCase& c, const Tolerance& tolerance) {
  SCOPED_TRACE(c.plan.spec.ShortDebugString());
  const LayerResult result = RunOnGpu(c);
  ExpectClose(result, RunOnCpu(c), tolerance);
  for (const uint64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    cuda_emulation::SetOrder(seed);
    const bool in_place = seed == 1;
    const LayerResult again = RunOnGpu(c, in_place);
    if (!c.deterministic) {
      ExpectClose(again, RunOnCpu(c), tolerance);
    } else if (in_place && OnRealGpu()) {
      ExpectSameBy(again, result, HaveSameBitsOrAreNan);
    } else {
      ExpectSame(again, result);
    }
  }
  cuda_emulation::SetOrder(0);
}

}  // namespace millrace::worker
