#include "stages/programs/speculation/target_setup.h"

#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"

namespace specdec {

TargetSetup::TargetSetup(const RunOptions& options, const ModelFiles& files,
                         const CacheLayout& layout, int max_pass_rows)
    : backend(make_backend(options)),
      model(load_target(options, files.checkpoint, *backend)),
      cache(make_cache(model, layout)),
      llama(model, *cache, {.token_limit = files.token_limit, .max_pass_rows = max_pass_rows}) {}

}  // namespace specdec
