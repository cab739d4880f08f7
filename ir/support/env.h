// The environment, read once in main and passed on as a value; nothing else in driftc calls getenv.
#pragma once

#include <string>
#include <vector>

namespace driftc {

struct Settings {
  bool bless = false;     // DRIFTC_BLESS: rewrite the expectations of filetests
  std::string dump_dir;   // DRIFTC_DUMP_DIR: "" = no dumps
  std::string cache_dir;  // DRIFTC_CACHE_DIR, default $XDG_CACHE_HOME/driftc or ~/.cache/driftc
  std::string executor;   // DRIFTC_EXECUTOR: "portable", "avx2" or "avx512" is the highest path the
                          // PTX executor takes, "" = the best of this machine
  std::string tensorcore_data;  // DRIFTC_TENSORCORE_DATA: captured hardware vectors, "" = none
  std::vector<std::string>
      library_path;  // DRIFTC_LIBRARY_PATH: folders searched first, ':' between them
  std::vector<std::string>
      wheel_roots;  // site-packages folders that may hold NVIDIA wheels
                    // (VIRTUAL_ENV, and .deps/ above the working folder and the binary)

  static Settings from_env();
};

}  // namespace driftc
