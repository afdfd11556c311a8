//! The pages and queries of the set, and pages between which they are looked for. The same every time.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages of the set, each with a query. The first half is English, the other one Chinese.
pub(super) const OF_SET: usize = 60;
const LAST_ENGLISH: &str = "30";
/// Words of a generated page, at least and at most.
const WORDS: (usize, usize) = (60, 120);
/// Words that generated pages have of their own.
const OWN_WORDS: usize = 1000;
/// One of so many words of a generated page is of a page of the set.
const OF_SET_EVERY: usize = 4;
/// The characters that generated Chinese pages have of their own: so many, from this one on.
const OWN_CHARACTERS: (u32, usize) = (0x5000, 1500);
const SYLLABLES: [&str; 10] = ["ba", "co", "du", "fa", "go", "hu", "ja", "ko", "lu", "ma"];

/// A page of knowledge.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) tags: Vec<String>,
}

/// A query, and the page that answers it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) page: String,
    pub(super) text: String,
    pub(super) is_chinese: bool,
}

/// A word that no other text has, and that is no form of another one.
pub(super) fn word(prefix: &str, number: usize) -> String {
    let digits = format!("{number:03}");
    let syllables = digits.bytes();
    let syllables = syllables.map(|digit| SYLLABLES[usize::from(digit - b'0')]);
    format!("{prefix}{}x", syllables.collect::<String>())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/knowledge/tests/set")
}

/// The pages of the set, in the order of their ids.
pub(super) fn of_set() -> Vec<Page> {
    let files = fs::read_dir(folder().join("pages")).expect("the pages of the set");
    let files = files.map(|file| file.expect("a file").path());
    let mut pages: Vec<Page> = files.map(|path| read(&path)).collect();
    pages.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(pages.len(), OF_SET);
    pages
}

fn read(path: &Path) -> Page {
    let file = fs::read_to_string(path).expect("a page");
    let file = file.trim_start_matches("---\n");
    let (head, text) = file.split_once("\n---\n").expect("front matter");
    let field = |name: &str| {
        let mut lines = head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.unwrap_or_else(|| panic!("{}: no {name}", path.display()))
    };
    let tags = field("tags: [").trim_end_matches(']');
    let id = path.file_stem().and_then(|stem| stem.to_str());
    Page {
        id: id.expect("a name").to_owned(),
        title: field("title: ").to_owned(),
        text: text.to_owned(),
        tags: tags.split(", ").map(str::to_owned).collect(),
    }
}

/// The queries, in the order of their pages.
pub(super) fn questions() -> Vec<Question> {
    let lines = fs::read_to_string(folder().join("queries.jsonl")).expect("the queries");
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let field = |name: &str| line[name].as_str().expect("a text").to_owned();
        let page = field("page");
        Question {
            is_chinese: page.as_str() > LAST_ENGLISH,
            page,
            text: field("query"),
        }
    });
    let questions: Vec<Question> = lines.collect();
    assert_eq!(questions.len(), OF_SET);
    questions
}

/// So many pages that answer no query. Every second one is Chinese, and each shares words with a page of the set.
pub(super) fn generated(set: &[Page], count: usize) -> Vec<Page> {
    let (english, chinese) = set.split_at(OF_SET / 2);
    let mut random = Random(46);
    let numbers = 0..count;
    let pages = numbers.map(|number| match number % 2 {
        0 => english_page(number, english, &mut random),
        _ => chinese_page(number, chinese, &mut random),
    });
    pages.collect()
}

fn english_page(number: usize, set: &[Page], random: &mut Random) -> Page {
    let near = &set[random.below(set.len())];
    let words: Vec<&str> = near.text.split_whitespace().collect();
    let count = WORDS.0 + random.below(WORDS.1 - WORDS.0);
    let text = (0..count).map(|_| match random.below(OF_SET_EVERY) {
        0 => words[random.below(words.len())].to_owned(),
        _ => word("no", random.below(OWN_WORDS)),
    });
    let text: Vec<String> = text.collect();
    Page {
        id: format!("generated-{number:05}"),
        title: word("no", random.below(OWN_WORDS)),
        text: text.join(" "),
        tags: vec![near.tags[random.below(near.tags.len())].clone()],
    }
}

fn chinese_page(number: usize, set: &[Page], random: &mut Random) -> Page {
    let near = &set[random.below(set.len())];
    let all = near.text.chars().filter(|one| one.is_alphanumeric());
    let all: Vec<char> = all.collect();
    let count = WORDS.0 + random.below(WORDS.1 - WORDS.0);
    let mut text = String::new();
    for at in 0..count {
        match random.below(OF_SET_EVERY) {
            0 => {
                let start = random.below(all.len() - 2);
                text.extend(&all[start..start + 2]);
            }
            _ => text.extend([random.character(), random.character()]),
        }
        text.push_str(if at % 8 == 7 { "。\n" } else { "" });
    }
    let title = (0..4).map(|_| random.character());
    Page {
        id: format!("generated-{number:05}"),
        title: title.collect(),
        text,
        tags: vec![near.tags[random.below(near.tags.len())].clone()],
    }
}

/// Numbers that follow from a seed: SplitMix64.
struct Random(u64);

impl Random {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(mixed % end).unwrap_or_default()
    }

    /// A character of generated pages.
    fn character(&mut self) -> char {
        let (first, count) = OWN_CHARACTERS;
        let more = u32::try_from(self.below(count)).unwrap_or_default();
        char::from_u32(first + more).unwrap_or('一')
    }
}
