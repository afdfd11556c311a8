//! How often a search finds the page that answers a question, alone and among thousands of other pages.
//!
//! Without noise both scorers find nearly all. Noise that has the words of a query at all costs the pages that share
//! few words with their query: what they are about is in other words there, which no comparison of words can find. So
//! the floors below are lower with noise, and lower in English, where a query has fewer terms than in Chinese.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that measures"
)]

mod noise;
mod set;

use cairn_knowledge::{Entry, Index, Query, Scorer};
use set::{Page, Question, raw_terms};
use std::collections::BTreeSet;
use std::time::Instant;

const HITS: usize = 5;

fn index(pages: &[Page]) -> Index {
    let mut index = Index::new();
    for Page {
        id,
        title,
        text,
        tags,
    } in pages
    {
        index.put(id, 1, Entry { title, text, tags });
    }
    index
}

fn finds(index: &Index, question: &Question, scorer: Scorer) -> bool {
    let query = Query {
        text: &question.text,
        tags: &[],
        max: HITS,
        min_score: 0.0,
        scorer,
    };
    index
        .search(&query)
        .iter()
        .any(|hit| hit.id == question.page)
}

/// Share of the English and of the Chinese questions whose page is found.
fn recall(index: &Index, questions: &[Question], scorer: Scorer) -> [f64; 2] {
    [false, true].map(|chinese| {
        let asked: Vec<_> = questions
            .iter()
            .filter(|one| one.is_chinese() == chinese)
            .collect();
        let found = asked.iter().filter(|one| finds(index, one, scorer)).count();
        found as f64 / asked.len() as f64
    })
}

/// Prints recall among so many pages of noise, and returns that of the default scorer.
fn among(noise: usize) -> [f64; 2] {
    let questions = set::questions();
    let mut pages = set::pages();
    pages.extend(noise::pages(&pages, &questions, noise));
    let text: usize = pages.iter().map(|page| page.all().len()).sum();
    let start = Instant::now();
    let index = index(&pages);
    println!(
        "{} pages, {} KiB: indexed in {:?}, {} KiB",
        index.len(),
        text / 1024,
        start.elapsed(),
        index.bytes() / 1024
    );
    let [default, _] = Scorer::ALL.map(|scorer| {
        let start = Instant::now();
        let [english, chinese] = recall(&index, &questions, scorer);
        let each = start.elapsed().as_secs_f64() * 1000.0 / questions.len() as f64;
        println!(
            "  {scorer}: recall at {HITS} English {english:.3}, Chinese {chinese:.3}; \
             {each:.3} ms for a query"
        );
        [english, chinese]
    });
    default
}

#[test]
fn without_noise_nearly_every_page_is_found() {
    let [english, chinese] = among(0);
    assert!(english >= 0.95 && chinese >= 0.95);
}

#[test]
fn among_hundreds_of_pages_most_are_found() {
    let [english, chinese] = among(500);
    assert!(english >= 0.75 && chinese >= 0.9);
}

#[test]
fn among_thousands_of_pages_those_that_share_words_are_found() {
    let [english, chinese] = among(5000);
    assert!(english >= 0.6 && chinese >= 0.8);
}

#[test]
fn at_most_half_of_a_querys_words_are_in_its_page() {
    let pages = set::pages();
    let questions = set::questions();
    assert_eq!((pages.len(), questions.len()), (60, 60));
    for question in questions {
        let page = pages.iter().find(|page| page.id == question.page).unwrap();
        assert_eq!(page.is_chinese(), question.is_chinese());
        let words = raw_terms(&question.text);
        let shared = words.intersection(&raw_terms(&page.all())).count();
        assert!(
            shared * 2 <= words.len(),
            "{}: {shared} of {}",
            question.page,
            words.len()
        );
    }
}

/// Mean share of the pages that have a word of a query, over all words of the queries.
fn commonness(questions: &[&Question], pages: &[(&str, BTreeSet<String>)]) -> f64 {
    let mut shares = Vec::new();
    for question in questions {
        let others: Vec<_> = pages
            .iter()
            .filter(|(id, _)| *id != question.page)
            .collect();
        // Shorter words are mostly stop words. A pair of Chinese characters has six bytes.
        for word in raw_terms(&question.text)
            .iter()
            .filter(|word| word.len() >= 5)
        {
            let with = others
                .iter()
                .filter(|(_, words)| words.contains(word))
                .count();
            shares.push(with as f64 / others.len() as f64);
        }
    }
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[test]
fn noise_has_the_words_of_the_queries_as_often_as_the_set() {
    let set = set::pages();
    let all = set::questions();
    let noise = noise::pages(&set, &all, 1000);
    for chinese in [false, true] {
        let questions: Vec<_> = all
            .iter()
            .filter(|one| one.is_chinese() == chinese)
            .collect();
        let [set, noise] = [&set, &noise].map(|pages| {
            let own = pages.iter().filter(|page| page.is_chinese() == chinese);
            let words: Vec<_> = own
                .map(|page| (page.id.as_str(), raw_terms(&page.all())))
                .collect();
            commonness(&questions, &words)
        });
        println!("a word of a query is in {set:.3} of the set, in {noise:.3} of the noise");
        assert!(noise >= set);
    }
}
