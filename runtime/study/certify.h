// The checker tested by mutation: faults planted at every level where they can arise, and harmless
// variants, each put before driftc (source replay), driftc-judge (order and kernels unknown, the
// outputs alone) and the comparers of other tools. Says of each how many faults it finds and how
// often it accuses a healthy result.
//
// A planted fault counts where it changes the bits of an output on the data at hand or makes the
// executor refuse the kernel. A false declaration counts where it is planted, for driftc alone: the
// outputs are right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/study/certify_families.h"
#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct CertifySettings {
  int seeds = 10;
  int shapes = 6;                     // at most kCertifyShapes
  std::vector<std::string> families;  // parts of names or groups; empty: every family
  std::vector<std::string> faults;    // parts of names or levels; empty: every fault
  DeviceProfile device;
};

struct MissedFault {
  std::string fault, precision, shape;  // precision: name of the family
  double size = 0;                      // largest change of an output, of the output's RMS
  double bounds =
      0;  // ... in units of the accumulation bound around the precision-matched reference
};

struct CertifyCounts {
  std::int64_t faults = 0, found = 0;  // put before it, found
  std::int64_t healthy = 0, false_alarms = 0;
};
struct ComparerScore {
  std::string name;
  CertifyCounts all;
  std::vector<CertifyCounts> by_family;  // in the order of CertifyReport::families
  std::vector<MissedFault> missed;
  std::vector<std::string> accused;  // healthy results it rejected: "variant, family, shape"
};

struct CertifyReport {
  std::vector<const CertifyFamily*> families;
  std::int64_t faults = 0;                   // planted, with an effect
  std::int64_t healthy = 0;                  // harmless variants
  std::int64_t without_effect = 0;           // planted where they change nothing
  std::vector<std::string> never_effective;  // kinds that changed nothing anywhere: not tested
  int kinds = 0, seeds = 0, shapes = 0;
  std::vector<ComparerScore> comparers;  // driftc, driftc-judge, the others
  // driftc misses nothing; nobody healthy is accused; the judge misses nothing where sums are
  // chains in f32, and elsewhere nothing that changes an output by more than twice the accumulation
  // bound around the matched reference.
  bool holds() const;
};

Result<CertifyReport> certify(const CertifySettings& settings, const Services& services);

}  // namespace driftc::runtime::study
