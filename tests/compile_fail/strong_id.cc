#include "octavo/strong_id.h"

using BlockId = octavo::StrongId<struct BlockTag>;
using SequenceId = octavo::StrongId<struct SequenceTag>;

void Use() {
  BlockId block(1);
  const SequenceId sequence(1);
  const uint32_t integer = block.value();
  block = BlockId(integer + sequence.value());
#ifdef INTEGER_BECOMES_ID
  block = 7u;
#endif
#ifdef ID_BECOMES_INTEGER
  const uint32_t implicit = block;
#endif
#ifdef IDS_ARE_MIXED
  block = sequence;
#endif
#ifdef IDS_ARE_COMPARED_ACROSS_KINDS
  const bool same = block == sequence;
#endif
#ifdef ID_IS_INCREMENTED
  ++block;
#endif
}
