//! Pages on subjects near to those of the set. The same every time.
//!
//! A page of noise mixes words of two subjects, general words, and pieces of pages of the set, most of one of them. So
//! every page of the set has neighbours that share words with it. The subjects are near to those of the set, but no
//! page of noise is about what a query asks: words of queries are not in subjects, but spread over all pages. A word
//! of a query is in about as many pages of noise as in pages of the set that do not answer it.

mod vocabulary;

use super::random::Random;
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
    let mut random = Random::new(46);
    (0..number)
        .map(|number| languages[number % 2].page(format!("noise-{number}"), &mut random))
        .collect()
}

struct Neighbour<'a> {
    page: &'a Page,
    words: Vec<&'a str>,
    /// Of a Chinese page.
    characters: Option<Vec<char>>,
}

struct Language<'a> {
    neighbours: Vec<Neighbour<'a>>,
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
            neighbours: neighbours.into_iter().map(Neighbour::new).collect(),
            common: words(common),
            asked,
            subjects,
            pieces,
        }
    }

    fn page(&self, id: String, random: &mut Random) -> Page {
        let (tags, subject) = &self.subjects[random.below(self.subjects.len())];
        let (_, second) = &self.subjects[random.below(self.subjects.len())];
        let neighbour = random.one(&self.neighbours);
        let own = random.some(subject, 7);
        let others = random.some(second, 4);
        let length = 80 + random.below(80);
        let mut text = String::new();
        for number in 0..length {
            match random.below(1000) {
                0..250 => text.push_str(random.any(&own)),
                250..350 => text.push_str(random.any(&others)),
                350..400 => text.push_str(&random.piece(neighbour)),
                400..404 => text.push_str(random.any(&self.asked)),
                at if at < 404 + self.pieces => {
                    let any = random.one(&self.neighbours);
                    text.push_str(&random.piece(any));
                }
                _ => text.push_str(random.any(&self.common)),
            }
            text.push_str(if number % 9 == 8 {
                neighbour.end()
            } else {
                neighbour.between()
            });
        }
        let mut title = random.some(&own, 3);
        title.push(random.any(&self.common));
        let mut tags = tags.clone();
        tags.push(random.any(&neighbour.page.tags));
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

impl<'a> Neighbour<'a> {
    fn new(page: &'a Page) -> Self {
        let characters = page.text.chars().filter(|one| one.is_alphanumeric());
        Self {
            page,
            words: words(&page.text),
            characters: page.is_chinese().then(|| characters.collect()),
        }
    }

    fn between(&self) -> &'static str {
        if self.characters.is_some() { "" } else { " " }
    }

    fn end(&self) -> &'static str {
        if self.characters.is_some() {
            "。\n"
        } else {
            ".\n"
        }
    }
}

impl Random {
    fn any<'a, T: AsRef<str>>(&mut self, of: &'a [T]) -> &'a str {
        self.one(of).as_ref()
    }

    fn some<'a>(&mut self, of: &[&'a str], number: usize) -> Vec<&'a str> {
        (0..number).map(|_| of[self.below(of.len())]).collect()
    }

    /// A word of a page; of a Chinese one two to four characters that stand together.
    fn piece(&mut self, of: &Neighbour<'_>) -> String {
        let Some(characters) = &of.characters else {
            return self.any(&of.words).to_owned();
        };
        let at = self.below(characters.len() - 4);
        characters[at..at + 2 + self.below(3)].iter().collect()
    }
}
