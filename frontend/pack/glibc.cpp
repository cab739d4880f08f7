// Only in the program of `./dev gpu-pack`, which must run with glibc 2.34: the two newer functions
// that the static libgcc_eh and libstdc++ of a newer system ask for, over what every glibc has.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cstdint>

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* result;
};

int look_at(dl_phdr_info* object, std::size_t, void* data) {
  const auto* search = static_cast<const Search*>(data);
  std::uintptr_t begin = 0, end = 0, frames = 0;
  bool holds = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const std::uintptr_t at = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) frames = at;
    if (header.p_type != PT_LOAD) continue;
    if (begin == 0 || at < begin) begin = at;
    if (at + header.p_memsz > end) end = at + header.p_memsz;
    holds = holds || (search->address >= at && search->address < at + header.p_memsz);
  }
  if (!holds) return 0;
  *search->result = {};
  search->result->dlfo_map_start = reinterpret_cast<void*>(begin);
  search->result->dlfo_map_end = reinterpret_cast<void*>(end);
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return frames != 0 ? 1 : 0;
}

}  // namespace

// glibc 2.35: where the unwinder finds the frames of an address. 0: found.
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

#endif

#if __GLIBC_PREREQ(2, 36)

// glibc 2.36; std::random_device asks for it. Short reads do not happen at this size
// (getrandom(2)).
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

#endif
