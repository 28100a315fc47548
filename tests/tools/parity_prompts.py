"""The prompts of the parity golden: (name, text), in the order in which they are stored.

They are written for the purpose: short and long, prose, code, several scripts, whitespace and
odd bytes, plain text and the chat format, one token and about two thousand. The texts only
document the golden; the comparison reads the token ids stored in it.
"""

_STORY = """The lighthouse at Cape Merrow had been dark for eleven years when the letter arrived. Ada read it twice at the \
kitchen table, once quickly and once with a pencil in her hand, underlining the words she did not trust. The harbour board \
wanted the lamp lit again before the winter. They offered a small salary, a boat every second week, and the use of the keeper's \
house, which had lost part of its roof in the storm of the year before. Nobody else had applied.

She took the post because of the quiet. In the city the noise had become a kind of weather, something that pressed on the \
windows at night and never quite went away. At the cape there would be wind, and birds, and the long slow argument of the sea \
with the rocks. She packed two boxes of books, a set of tools that had belonged to her father, and a clock that ran four minutes \
fast no matter who repaired it.

The first week she did nothing but carry water and mend the roof. The second week she cleaned the lens, prism by prism, with \
vinegar and old newspapers, reading the headlines backwards in the glass. On the fifteenth evening she climbed the hundred and \
twelve steps, trimmed the wick, and put a match to it. The beam went out over the water like a sentence that had been waiting for \
its verb, and far away, on a ship whose name she never learned, somebody sounded a horn.
"""

_QUESTIONS = """Questions for the reader:
1. Why did Ada accept the post?
2. How many steps lead up to the lamp?
3. What did she use to clean the lens?
4. What does the ship's horn mean?
"""


def _ledger(lines):
    """A made-up stock ledger: numbers, abbreviations and repetition, from a small linear congruential generator."""
    goods = [
        "oil",
        "wick cotton",
        "rope",
        "paint",
        "flour",
        "salt",
        "tea",
        "nails",
        "glass",
        "soap",
        "timber",
        "coal",
    ]
    units = ["kg", "l", "m", "pcs", "boxes"]
    state = 12345
    rows = ["date,item,quantity,unit,price"]
    for i in range(lines):
        state = (1103515245 * state + 12345) % 2**31
        item = goods[(state >> 8) % len(goods)]
        unit = units[(state >> 13) % len(units)]
        rows.append(
            f"1911-{1 + i // 28:02d}-{1 + i % 28:02d},{item},{1 + (state >> 4) % 90},{unit},"
            f"{(state >> 10) % 40}.{(state >> 17) % 100:02d}"
        )
    return "\n".join(rows) + "\n"


_PYTHON = '''def merge_sort(items):
    """Returns a new sorted list."""
    if len(items) <= 1:
        return list(items)
    middle = len(items) // 2
    left, right = merge_sort(items[:middle]), merge_sort(items[middle:])
    merged, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]
'''

_CPP = """#include <cstdint>
#include <vector>

// Counts the set bits of every word.
uint64_t CountBits(const std::vector<uint64_t>& words) {
  uint64_t total = 0;
  for (uint64_t word : words) {
    while (word != 0) {
      word &= word - 1;
      ++total;
    }
  }
  return total;
}
"""

PROMPTS = [
    ("one-token", "Hello"),
    ("capital", "The capital of France is"),
    (
        "story-opening",
        "Once upon a time, in a village between two rivers, there lived a clockmaker who",
    ),
    (
        "definition",
        "A virtual memory page is a fixed-length contiguous block of memory. The operating system",
    ),
    ("arithmetic", "12 + 7 = 19\n45 + 38 = 83\n106 + 57 = 163\n2048 + 512 ="),
    ("story", _STORY),
    ("python", _PYTHON),
    ("cpp", _CPP),
    (
        "json",
        '{"name": "Ada", "age": 41, "tags": ["keeper", "reader"], "address": {"street": "Cape Road", "no":',
    ),
    (
        "sql",
        "SELECT customer_id, SUM(amount) AS total\nFROM orders\nWHERE created_at >= '2024-01-01'\nGROUP BY",
    ),
    (
        "chinese",
        "今天天气很好，我们一起去公园散步吧。湖边有许多人在钓鱼，孩子们在草地上放风筝。人工智能的发展",
    ),
    ("japanese-korean", "吾輩は犬である。名前はもうある。오늘은 날씨가 좋아서 산책을 하기로 했다."),
    (
        "cyrillic-greek-arabic",
        "Привет, мир! Как дела? Καλημέρα κόσμε. مرحبا بالعالم، كيف حالك اليوم؟",
    ),
    ("emoji", "I love pizza 🍕 and sushi 🍣! 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ❤️ What about you? 🤔"),
    ("whitespace", "   \n\n\t\tindented\r\n    four spaces  two  \u00a0nbsp\u3000wide\n\n\n\n   "),
    (
        "accents-combining",
        "Crème brûlée, naïve façade, Zürich, ångström, e\u0301 o\u0308 n\u0303, ﬁne ligatures",
    ),
    ("repetition", "the cat sat on the mat. " * 12 + "the cat sat on"),
    (
        "random-letters",
        "xq9 Zr7!! ~~ kJfWpQ #$%^&* 0x1f3A {}[]<> ||| _-_-_ vbnm,./ QWERTY zzzzzzzz",
    ),
    (
        "chat",
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is gravity? Answer in one sentence.<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "long",
        _STORY
        + "\n"
        + _QUESTIONS
        + "\n"
        + _ledger(44)
        + "\n"
        + _PYTHON
        + "\n"
        + _CPP
        + "\n"
        + _STORY,
    ),
]
