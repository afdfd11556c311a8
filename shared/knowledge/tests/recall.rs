//! How often a search finds the page that answers a question, alone and among thousands of other pages, and how long
//! the index and each search take.
//!
//! At most half of a query's words are in its page, and often only one or two that are not stop words. Among thousands
//! of pages, some have more of the query's words by chance, and a comparison of words ranks them higher. So recall
//! falls as pages are added: at 5,060 pages it is below 0.9 in both languages.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that measures"
)]

mod near;
mod noise;
mod random;
mod set;

use cairn_knowledge::{Entry, Index, Query, Scorer};
use set::{Page, Question, raw_terms};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const HITS: usize = 5;

/// Numbers of pages, the first of them without noise.
const SIZES: [usize; 3] = [60, 560, 5060];

/// The least recall of the default scorer at each size, in English and in Chinese. A little below the least that was
/// measured: 1.000 and 1.000, 0.833 and 0.967, 0.700 and 0.833.
const FLOORS: [[f64; 2]; SIZES.len()] = [[0.95, 0.95], [0.8, 0.95], [0.68, 0.8]];

/// Whether a search finds the page of a question, and how long it takes.
fn ask(index: &Index, question: &Question, scorer: Scorer) -> (bool, Duration) {
    let query = Query {
        text: &question.text,
        tags: &[],
        max: HITS,
        min_score: 0.0,
        scorer,
    };
    let start = Instant::now();
    let hits = index.search(&query);
    let time = start.elapsed();
    (hits.iter().any(|hit| hit.id == question.page), time)
}

/// Share of the English and of the Chinese questions whose page is found, and the times of the searches, sorted.
fn ask_all(index: &Index, questions: &[Question], scorer: Scorer) -> ([f64; 2], Vec<Duration>) {
    let mut times = Vec::new();
    let recall = [false, true].map(|chinese| {
        let of_language = questions.iter().filter(|one| one.is_chinese() == chinese);
        let (mut asked, mut answered) = (0_u32, 0_u32);
        for question in of_language {
            let (is_found, time) = ask(index, question, scorer);
            asked += 1;
            answered += u32::from(is_found);
            times.push(time);
        }
        f64::from(answered) / f64::from(asked)
    });
    times.sort_unstable();
    (recall, times)
}

/// The recall of each scorer in both languages at each of the sizes.
type Recalls = [[[f64; 2]; 2]; SIZES.len()];

/// Fills an index with the pages of the set and then with noise, and measures at each size.
fn among(name: &str, noise: &[Page]) -> Recalls {
    let (questions, set) = (set::questions(), set::pages());
    let mut index = Index::new();
    let mut pages = set.iter().chain(noise);
    let mut indexing = Duration::ZERO;
    SIZES.map(|size| {
        let start = Instant::now();
        for page in pages.by_ref().take(size - index.len()) {
            let entry = Entry {
                title: &page.title,
                text: &page.text,
                tags: &page.tags,
            };
            index.put(&page.id, 1, entry);
        }
        indexing += start.elapsed();
        let bytes = index.bytes() / 1024;
        println!("{name}: {size} pages are indexed in {indexing:.1?}, and take {bytes} KiB");
        Scorer::ALL.map(|scorer| {
            let ([english, chinese], times) = ask_all(&index, &questions, scorer);
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            println!(
                "{name}: {size} pages, {scorer:?}: English {english:.3}, Chinese {chinese:.3}; a search takes \
                 {median:.1?}, at most {longest:.1?}"
            );
            [english, chinese]
        })
    })
}

fn pages_are_found_among_noise(seed: u64) {
    let noise = noise::pages(&set::pages(), &set::questions(), seed, SIZES[2] - SIZES[0]);
    let recalls = among(&format!("noise {seed}"), &noise);
    for (([default, _], floors), size) in recalls.into_iter().zip(FLOORS).zip(SIZES) {
        assert!(
            default[0] >= floors[0] && default[1] >= floors[1],
            "seed {seed}, {size} pages: {default:?}, at least {floors:?}"
        );
    }
}

#[test]
fn pages_are_found_among_noise_1() {
    pages_are_found_among_noise(46);
}

#[test]
fn pages_are_found_among_noise_2() {
    pages_are_found_among_noise(47);
}

#[test]
fn pages_are_found_among_noise_3() {
    pages_are_found_among_noise(48);
}

/// Printed only: this noise follows a writer's idea of near subjects, and no estimate.
#[test]
fn recall_among_pages_on_near_subjects_is_printed() {
    let noise = near::pages(&set::pages(), &set::questions(), SIZES[2] - SIZES[0]);
    among("near subjects", &noise);
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

/// The words of the texts of one language, with the ids of their pages.
type Texts = Vec<(String, BTreeSet<String>)>;

fn texts(pages: &[Page], chinese: bool) -> Texts {
    (pages.iter())
        .filter(|page| page.is_chinese() == chinese)
        .map(|page| (page.id.clone(), raw_terms(&page.all())))
        .collect()
}

/// Mean share of the pages that have a word of a text, over all words of the texts. A page's own words do not count.
fn commonness(texts: &Texts, pages: &Texts) -> f64 {
    let mut shares = Vec::new();
    for (id, text) in texts {
        let others: Vec<_> = pages.iter().filter(|(other, _)| other != id).collect();
        shares.extend(text.iter().map(|word| {
            let with = others.iter().filter(|(_, words)| words.contains(word));
            with.count() as f64 / others.len() as f64
        }));
    }
    shares.iter().sum::<f64>() / shares.len() as f64
}

fn mean_length(texts: &Texts) -> f64 {
    texts.iter().map(|(_, words)| words.len()).sum::<usize>() as f64 / texts.len() as f64
}

#[test]
fn noise_shares_as_many_words_with_queries_and_pages_as_the_set() {
    let set = set::pages();
    let all = set::questions();
    let noise = noise::pages(&set, &all, 46, 500);
    for chinese in [false, true] {
        let queries = (all.iter())
            .filter(|one| one.is_chinese() == chinese)
            .map(|one| (one.page.clone(), raw_terms(&one.text)))
            .collect();
        let [set, noise] = [&set, &noise].map(|pages| texts(pages, chinese));
        for (name, words) in [("query", &queries), ("page", &set)] {
            let [before, now] = [&set, &noise].map(|pages| commonness(words, pages));
            println!("a word of a {name} is in {before:.4} of the set, in {now:.4} of the noise");
            assert!(now >= before * 0.9 && now <= before * 1.5);
        }
        let [before, now] = [&set, &noise].map(mean_length);
        println!("{before:.0} different words in a page of the set, {now:.0} in one of noise");
        assert!((now / before - 1.0).abs() < 0.1);
    }
}
