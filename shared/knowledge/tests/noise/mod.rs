//! Pages that a search has to tell from those of the set. The same every time.
//!
//! A page of noise mixes words of two subjects, general words, and pieces of pages of the set, most of one of them. So
//! every page of the set has neighbours that share words with it. The subjects are near to those of the set, but no
//! page of noise is about what a query asks: words of queries are not in subjects, but spread over all pages. A word
//! of a query is in about as many pages of noise as in pages of the set that do not answer it.

mod vocabulary;

use super::set::{Page, Question};
use vocabulary::{CHINESE, CHINESE_SUBJECTS, ENGLISH, ENGLISH_SUBJECTS, Subject};

/// Pages, every second one Chinese.
pub(crate) fn pages(set: &[Page], questions: &[Question], number: usize) -> Vec<Page> {
    let asked: String = questions
        .iter()
        .map(|one| one.text.to_lowercase() + " ")
        .collect();
    let (chinese, english): (Vec<_>, Vec<_>) = set.iter().partition(|page| page.is_chinese());
    let languages = [
        Language::new(english, 450, ENGLISH, ENGLISH_SUBJECTS, &asked),
        Language::new(chinese, 100, CHINESE, CHINESE_SUBJECTS, &asked),
    ];
    let mut random = Random(46);
    (0..number)
        .map(|number| languages[number % 2].page(format!("noise-{number}"), &mut random))
        .collect()
}

struct Language<'a> {
    neighbours: Vec<&'a Page>,
    common: Vec<&'static str>,
    asked: Vec<&'static str>,
    subjects: Vec<(Vec<&'static str>, Vec<&'static str>)>,
    /// Of a thousand words, so many are pieces of any page of the set. A Chinese piece has several words.
    pieces: usize,
}

impl<'a> Language<'a> {
    fn new(
        neighbours: Vec<&'a Page>,
        pieces: usize,
        common: &'static str,
        subjects: &'static [Subject],
        queries: &str,
    ) -> Self {
        let mut asked = Vec::new();
        let subjects = (subjects.iter())
            .map(|subject| {
                let (in_queries, own): (Vec<_>, Vec<_>) = words(subject.words)
                    .into_iter()
                    .partition(|word| queries.contains(&word.to_lowercase()));
                asked.extend(in_queries);
                (words(subject.tags), own)
            })
            .collect();
        Self {
            neighbours,
            common: words(common),
            asked,
            subjects,
            pieces,
        }
    }

    fn page(&self, id: String, random: &mut Random) -> Page {
        let (tags, subject) = &self.subjects[random.below(self.subjects.len())];
        let (_, second) = &self.subjects[random.below(self.subjects.len())];
        let neighbour = self.neighbours[random.below(self.neighbours.len())];
        let own = random.some(subject, 7);
        let others = random.some(second, 4);
        let length = 80 + random.below(80);
        let mut text = String::new();
        for number in 0..length {
            match random.below(1000) {
                0..250 => text.push_str(random.one(&own)),
                250..350 => text.push_str(random.one(&others)),
                350..400 => text.push_str(&random.piece(neighbour)),
                400..404 => text.push_str(random.one(&self.asked)),
                at if at < 404 + self.pieces => {
                    let any = self.neighbours[random.below(self.neighbours.len())];
                    text.push_str(&random.piece(any));
                }
                _ => text.push_str(random.one(&self.common)),
            }
            text.push_str(if number % 9 == 8 {
                neighbour.end()
            } else {
                neighbour.between()
            });
        }
        let mut title = random.some(&own, 3);
        title.push(random.one(&self.common));
        let mut tags = tags.clone();
        tags.push(random.one(&neighbour.tags));
        Page {
            id,
            title: title.join(neighbour.between()),
            tags: tags.into_iter().map(str::to_owned).collect(),
            text,
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

impl Page {
    fn between(&self) -> &'static str {
        if self.is_chinese() { "" } else { " " }
    }

    fn end(&self) -> &'static str {
        if self.is_chinese() { "。\n" } else { ".\n" }
    }
}

/// The generator "splitmix64".
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    fn one<'a, T: AsRef<str>>(&mut self, of: &'a [T]) -> &'a str {
        of[self.below(of.len())].as_ref()
    }

    fn some<'a>(&mut self, of: &[&'a str], number: usize) -> Vec<&'a str> {
        (0..number).map(|_| of[self.below(of.len())]).collect()
    }

    /// A word of a page; of a Chinese one two to four characters that stand together.
    fn piece(&mut self, page: &Page) -> String {
        if !page.is_chinese() {
            return self.one(&words(&page.text)).to_owned();
        }
        let characters: Vec<char> = page
            .text
            .chars()
            .filter(|one| one.is_alphanumeric())
            .collect();
        let at = self.below(characters.len() - 4);
        characters[at..at + 2 + self.below(3)].iter().collect()
    }
}
