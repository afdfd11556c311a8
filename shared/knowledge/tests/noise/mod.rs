//! Pages of a wiki that has grown around the set. The same for a seed.
//!
//! A page of noise is a page of the set in which every word is replaced by another. So noise has the lengths, titles,
//! tags and repetitions of the set. A word that is several times in a page is replaced by the same word each time. In
//! Chinese, a word is a pair of characters.
//!
//! **Words of the set.** Good–Turing estimates how many of the pages to come have a word. Of 30 pages, a word that is
//! in `r` of the set's 30 is in (r + 1) N(r + 1) / N(r). N(r) is the number of words that are in `r` pages. Words are
//! drawn with these frequencies: a frequent word replaces a frequent one, a rare word a rare one.
//!
//! **Words of the queries that are in no page.** They share the frequency of unseen words equally with all other
//! unseen words. Chao's estimate of the number of unseen words is a lower bound. So the noise has rather more of these
//! words than a wiki has.
//!
//! **New words.** All other unseen words are made up. Their frequencies continue Zipf's law where the set's words end,
//! so new pages bring new words, ever fewer of them.
//!
//! Words are drawn independently, so a page of noise has several words of a query only by chance. The set is like
//! that: its pages share rare words with each other about as often as independent pages would.

mod good_turing;
mod made_up;
mod stand_ins;
mod words;

use super::random::Random;
use super::set::{Page, Question, raw_terms};
use stand_ins::StandIns;
use words::Words;

/// The pages of one language, and how rare their words are.
pub(crate) struct Language<'a> {
    pages: Vec<&'a Page>,
    words: Words,
    pairs: Words,
    characters: Vec<char>,
}

impl<'a> Language<'a> {
    fn new(set: &'a [Page], questions: &[Question], chinese: bool) -> Self {
        let pages: Vec<_> = set
            .iter()
            .filter(|page| page.is_chinese() == chinese)
            .collect();
        let texts: Vec<_> = pages.iter().map(|page| raw_terms(&page.all())).collect();
        let asked = questions
            .iter()
            .filter(|one| one.is_chinese() == chinese)
            .flat_map(|one| raw_terms(&one.text))
            .collect();
        let characters = pages.iter().flat_map(|page| page.text.chars());
        Self {
            words: Words::new(&texts, &asked, |term| !words::is_pair(term)),
            pairs: Words::new(&texts, &asked, words::is_pair),
            characters: characters.filter(|one| super::set::is_han(*one)).collect(),
            pages,
        }
    }

    fn page(&self, id: String, random: &mut Random) -> Page {
        let like = *random.one(&self.pages);
        let mut stand_ins = StandIns::new(self, random);
        Page {
            id,
            title: stand_ins.text(&like.title),
            tags: like.tags.iter().map(|tag| stand_ins.text(tag)).collect(),
            text: stand_ins.text(&like.text),
        }
    }
}

/// Pages, every second one Chinese.
pub(crate) fn pages(set: &[Page], questions: &[Question], seed: u64, number: usize) -> Vec<Page> {
    let languages = [false, true].map(|chinese| Language::new(set, questions, chinese));
    let mut random = Random::new(seed);
    (0..number)
        .map(|number| languages[number % 2].page(format!("noise-{number}"), &mut random))
        .collect()
}
