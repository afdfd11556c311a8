//! Words that stand in most texts and say nothing about them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// With the parts that a contraction leaves before its apostrophe, such as "don" of "don't".
const ENGLISH: &str = "\
a about above after again against all also am an and any are aren as at be because been before being below between \
both but by can cannot could couldn did didn do does doesn doing don down during each either else ever few for from \
further get gets got had hadn has hasn have haven having he her here hers herself him himself his how however i if in \
into is isn it its itself just let may me might mine more most much must mustn my myself neither no nor not of off on \
once only or other our ours ourselves out over own per please quite rather s same shall shan she should shouldn since \
so some such t than that the their theirs them themselves then there these they this those though through thus to \
too under until up upon us very via was wasn we were weren what when where whether which while who whom whose why \
will with within without won would wouldn yet you your yours yourself yourselves";

/// Chinese words and particles that end a run of characters. Characters that are also parts of many common words,
/// such as 在 in 存在, are not here but in `SMALL`.
const CHINESE: &str = "\
的 了 吗 呢 吧 啊 呀 嘛 么 是 很 也 把 被 这 那 哪 谁 我 你 您 他 她 它 们 \
我们 你们 您们 他们 她们 它们 咱们 大家 自己 这个 那个 这些 那些 这样 那样 这里 那里 这种 那种 这次 那次 \
什么 什么样 什么时候 怎么 怎么办 怎么样 怎样 为什么 为何 如何 何时 多少 哪个 哪些 哪里 哪儿 哪天 是否 能否 可否 有没有 \
能不能 可不可以 是不是 要不要 会不会 该不该 行不行 一个 一些 一种 一下 没有 不是 不会 不能 以及 或者 还是 并且 而且 \
但是 可是 不过 只是 因为 所以 由于 因此 如果 要是 虽然 尽管 然后 然而 于是 可以 已经 正在 就是 也是 都是 还有 关于 \
对于 根据 按照 通过 进行 请问 时候 之后 之前 以后 以前 的话 其中 其他 其它 另外 此外 以上 以下 不要";

/// Chinese characters that say nothing alone.
const SMALL: &str = "在和与或及有要会能到从对就都还又再不没为以于之而但由给让个一等做用着过得地";

static ENGLISH_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| ENGLISH.split_whitespace().collect());

/// By the first character, the longest first.
static CHINESE_WORDS: LazyLock<HashMap<char, Vec<Vec<char>>>> = LazyLock::new(|| {
    let mut words: HashMap<char, Vec<Vec<char>>> = HashMap::new();
    for word in CHINESE.split_whitespace() {
        let word: Vec<char> = word.chars().collect();
        words.entry(word[0]).or_default().push(word);
    }
    for same in words.values_mut() {
        same.sort_by_key(|word| std::cmp::Reverse(word.len()));
    }
    words
});

/// Whether a lower-case word is a stop word of English.
pub(crate) fn is_english(word: &str) -> bool {
    ENGLISH_WORDS.contains(word)
}

/// Number of characters of the longest Chinese stop word that the characters begin with, 0 if there is none.
pub(crate) fn chinese_at(characters: &[char]) -> usize {
    characters
        .first()
        .and_then(|first| CHINESE_WORDS.get(first))
        .and_then(|words| words.iter().find(|word| characters.starts_with(word)))
        .map_or(0, Vec::len)
}

/// Whether a Chinese character says nothing alone.
pub(crate) fn is_small(character: char) -> bool {
    SMALL.contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_chinese_stop_word_counts() {
        let at = |text: &str| chinese_at(&text.chars().collect::<Vec<_>>());
        assert_eq!(at("什么时候开会"), 4);
        assert_eq!(at("什么会"), 2);
        assert_eq!(at("的"), 1);
        assert_eq!(at("会议"), 0);
        assert_eq!(at(""), 0);
    }

    #[test]
    fn english_stop_words_are_whole_words() {
        assert!(is_english("the") && is_english("don") && is_english("which"));
        assert!(!is_english("theme") && !is_english("The"));
    }
}
