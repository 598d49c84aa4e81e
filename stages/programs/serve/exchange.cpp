#include "stages/programs/serve/exchange.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "stages/programs/serve/refusal.h"

namespace specdec {
namespace {

// How many times the limit a body is read before its connection is closed: a client sends all of
// its body before it reads the answer.
constexpr std::size_t kPatience = 8;

// The body's size, if the client says it.
std::size_t announced_size(const HttpRequest& request) {
  const std::string_view text = request.header("content-length");
  std::size_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

MHD_Result add_header(void* to, MHD_ValueKind, const char* name, const char* value) {
  auto& headers = static_cast<HttpRequest*>(to)->headers;
  std::string key(name);
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto [place, is_new] = headers.emplace(key, value != nullptr ? value : "");
  if (!is_new) place->second += std::string(", ") + (value != nullptr ? value : "");
  return MHD_YES;
}

// Queues a response, and lets go of it.
MHD_Result queue(MHD_Connection* connection, MHD_Response* response, const HttpAnswer& answer) {
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
  for (const auto& [name, value] : answer.headers) {
    MHD_add_response_header(response, name.c_str(), value.c_str());
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

Exchange::Exchange(MHD_Connection* connection, const char* method, const char* url,
                   const HttpLimits& limits)
    : connection_(connection),
      limits_(limits),
      request_{.method = method, .path = url, .body = {}, .headers = {}},
      reply_(std::make_shared<Reply>(limits.unread)) {
  MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &request_);
  reply_->connection_ = connection;
}

Exchange::~Exchange() {
  const std::lock_guard lock(reply_->mutex_);
  reply_->connection_ = nullptr;
  reply_->suspended_ = false;
}

bool Exchange::is_waiting() const {
  const std::lock_guard lock(reply_->mutex_);
  return reply_->suspended_;
}

bool Exchange::is_done() const {
  const std::lock_guard lock(reply_->mutex_);
  return reply_->ended_ || reply_->cut_;
}

void Exchange::cut_off() {
  const std::lock_guard lock(reply_->mutex_);
  reply_->cut_off();
}

MHD_Result Exchange::go_on(const char* data, std::size_t* size, const HttpHandler& handler) {
  if (*size > 0) return take(data, *size);
  if (!dispatched_) dispatch(handler);
  return queue_answer();
}

MHD_Result Exchange::take(const char* data, std::size_t& size) {
  too_large_ = too_large_ || request_.body.size() + size > limits_.body;
  if (too_large_) {
    discarded_ += size;
    if (discarded_ > kPatience * limits_.body) return MHD_NO;
  } else {
    request_.body.append(data, size);
  }
  size = 0;
  return MHD_YES;
}

bool Exchange::is_hopeless() const { return announced_size(request_) > kPatience * limits_.body; }

void Exchange::dispatch(const HttpHandler& handler) {
  dispatched_ = true;
  if (too_large_ || announced_size(request_) > limits_.body) {
    reply_->answer(to_answer(
        Refusal(413, fmt::format("the request has more than {} bytes, the limit", limits_.body))));
    return;
  }
  try {
    handler(request_, reply_);
  } catch (const std::exception& error) {
    reply_->answer(to_answer(Refusal(500, error.what())));
  }
}

// The answer, or none yet: then the connection waits until the reply wakes it.
std::optional<HttpAnswer> Exchange::take_answer() {
  const std::lock_guard lock(reply_->mutex_);
  if (!reply_->head_) {
    reply_->suspended_ = true;
    MHD_suspend_connection(connection_);
    return std::nullopt;
  }
  HttpAnswer answer = std::move(*reply_->head_);
  answer.headers.insert(answer.headers.end(), reply_->headers_.begin(), reply_->headers_.end());
  return answer;
}

// The reply's mutex is not locked here: read_stream() locks it while libmicrohttpd locks that of
// the response.
MHD_Result Exchange::queue_answer() {
  if (reply_->is_gone()) return MHD_NO;
  const std::optional<HttpAnswer> answer = take_answer();
  if (!answer) return MHD_YES;
  constexpr std::size_t kBlock = 16 << 10;
  MHD_Response* response =
      reply_->streams()
          ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlock, read_stream, this, nullptr)
          : MHD_create_response_from_buffer(
                answer->body.size(), const_cast<char*>(answer->body.data()), MHD_RESPMEM_MUST_COPY);
  return queue(connection_, response, *answer);
}

ssize_t Exchange::read_stream(void* exchange, std::uint64_t, char* to, std::size_t most) {
  Exchange& self = *static_cast<Exchange*>(exchange);
  Reply& reply = *self.reply_;
  const std::lock_guard lock(reply.mutex_);
  if (reply.cut_) return MHD_CONTENT_READER_END_WITH_ERROR;
  const std::size_t n = std::min(most, reply.unread_.size() - reply.read_);
  if (n > 0) {
    std::memcpy(to, reply.unread_.data() + reply.read_, n);
    reply.read_ += n;
    return static_cast<ssize_t>(n);
  }
  if (reply.ended_) return MHD_CONTENT_READER_END_OF_STREAM;
  reply.suspended_ = true;
  MHD_suspend_connection(self.connection_);
  return 0;
}

}  // namespace specdec
