// SPDX-License-Identifier: Apache-2.0
// The file without a name.
#include "properties/sources/exhaustive/tape.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "reference/support/input_error.h"
#include "reference/support/interrupt.h"
#include "reference/support/say.h"

namespace kvproof::properties::exhaustive {
namespace {

void require(bool done) {
  if (done) return;
  throw InputError(temporary_folder().string(), 0, "",
                   say("room for what a search has visited, found: ", std::strerror(errno)));
}

}  // namespace

void NamelessFile::write(std::uint64_t at, const void* from, std::size_t bytes) {
  if (!file_) {
    std::string path = (temporary_folder() / "kvproof-visited-XXXXXX").string();
    const WithoutInterrupts held;  // for as long as it has a name
    const int descriptor = ::mkstemp(path.data());
    require(descriptor >= 0 && ::unlink(path.c_str()) == 0);
    file_.reset(::fdopen(descriptor, "w+"));
  }
  require(::fseeko(file_.get(), static_cast<off_t>(at), SEEK_SET) == 0 &&
          std::fwrite(from, 1, bytes, file_.get()) == bytes && std::fflush(file_.get()) == 0);
}

void NamelessFile::read(std::uint64_t at, void* to, std::size_t bytes) const {
  require(::fseeko(file_.get(), static_cast<off_t>(at), SEEK_SET) == 0 &&
          std::fread(to, 1, bytes, file_.get()) == bytes);
}

}  // namespace kvproof::properties::exhaustive
