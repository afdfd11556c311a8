//! The index against a scorer that counts everything anew for each query.

use super::{Page, query};
use crate::{Hit, Index, Query, Scorer, terms};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index as Place, select};
use std::collections::{BTreeMap, BTreeSet};

type Pages = BTreeMap<String, (u64, Page)>;

/// How often each term counts.
fn counts(page: &Page) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let mut add = |text: &str, times| {
        terms::each(text, |term| {
            *counts.entry(term.to_owned()).or_insert(0) += times
        });
    };
    add(&page.title, 3);
    page.tags.iter().for_each(|tag| add(tag, 2));
    add(&page.text, 1);
    counts
}

fn bm25(asked: &[String], page: &BTreeMap<String, u32>, all: &[BTreeMap<String, u32>]) -> f64 {
    let length =
        |page: &BTreeMap<String, u32>| page.values().map(|count| f64::from(*count)).sum::<f64>();
    let average = all.iter().map(length).sum::<f64>() / all.len() as f64;
    let (mut sum, mut once) = (0.0, 0.0);
    for term in asked {
        let with = all.iter().filter(|page| page.contains_key(term)).count() as f64;
        let rare =
            (1.0 + (all.len() as f64 - with + 0.5) / (with + 0.5)).ln() * terms::weight(term);
        let count = page
            .get(term)
            .map_or(0.0, |count| f64::from(*count).min(255.0));
        sum += rare * count * 6.0 / (count + 5.0 * (0.25 + 0.75 * length(page) / average));
        once += rare;
    }
    sum / (sum + once)
}

fn dice(asked: &[String], page: &BTreeMap<String, u32>) -> f64 {
    let shared = asked.iter().filter(|term| page.contains_key(*term)).count();
    2.0 * shared as f64 / (asked.len() + page.len()) as f64
}

fn search(pages: &Pages, query: &Query<'_>) -> Vec<Hit> {
    let asked = terms::distinct(query.text);
    let all: Vec<_> = pages.values().map(|(_, page)| counts(page)).collect();
    let mut found: Vec<_> = (pages.iter().zip(&all))
        .filter(|(_, counts)| asked.iter().any(|term| counts.contains_key(term)))
        .map(|((id, (version, page)), counts)| {
            let score = match query.scorer {
                Scorer::Bm25 => bm25(&asked, counts, &all),
                Scorer::Dice => dice(&asked, counts),
            };
            (score, *version, id, page)
        })
        .filter(|(score, _, _, page)| {
            let tags: BTreeSet<_> = page.tags.iter().map(|tag| tag.to_lowercase()).collect();
            *score >= query.min_score
                && query
                    .tags
                    .iter()
                    .all(|tag| tags.contains(&tag.to_lowercase()))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(b.2)));
    found.truncate(query.max);
    found
        .into_iter()
        .map(|(score, _, id, _)| Hit {
            id: id.clone(),
            score,
        })
        .collect()
}

fn text(words: usize) -> impl Strategy<Value = String> {
    let word = select(vec![
        "replica",
        "replicas",
        "lag",
        "the",
        "read-only",
        "maxItems",
        "3.12",
        "数据库",
        "备份",
        "为什么",
        "的",
        "x",
        "é",
    ]);
    vec(word, 0..words).prop_map(|words| words.join(" "))
}

fn page() -> impl Strategy<Value = Page> {
    let tags = vec(select(vec!["Ops", "ops", "数据", "lag"]), 0..3);
    (text(3), text(25), tags).prop_map(|(title, text, tags)| Page::new(&title, &text, &tags))
}

fn pages() -> impl Strategy<Value = Pages> {
    btree_map("[a-e]{1,2}", (0_u64..3, page()), 0..12)
}

fn index<'a>(pages: impl IntoIterator<Item = (&'a String, &'a (u64, Page))>) -> Index {
    let mut index = Index::new();
    for (id, (version, page)) in pages {
        index.put(id, *version, page.entry());
    }
    index
}

fn both(text: &str) -> [Query<'_>; 2] {
    Scorer::ALL.map(|scorer| Query {
        scorer,
        max: 5,
        ..query(text)
    })
}

/// Sums in another order can differ in the last digit.
fn same(found: &[Hit], expected: &[Hit]) -> bool {
    found.len() == expected.len()
        && (found.iter().zip(expected)).all(|(a, b)| (a.score - b.score).abs() < 1e-9)
        && ids(found) == ids(expected)
}

fn ids(hits: &[Hit]) -> Vec<&str> {
    super::ids(hits)
}

proptest! {
    #[test]
    fn a_search_finds_what_the_naive_scorer_finds(
        pages in pages(),
        asked in text(6),
        min_score in 0.0..0.6,
        tags in vec(select(vec!["OPS".to_owned(), "lag".to_owned()]), 0..2),
    ) {
        for query in both(&asked) {
            let query = Query { min_score, tags: &tags, ..query };
            let (found, expected) = (index(&pages).search(&query), search(&pages, &query));
            prop_assert!(same(&found, &expected), "{found:?} for {expected:?}");
        }
    }

    #[test]
    fn scores_are_above_0_and_at_most_1(pages in pages(), asked in text(6)) {
        for query in both(&asked) {
            for hit in index(&pages).search(&query) {
                prop_assert!(hit.score > 0.0 && hit.score <= 1.0, "{hit:?}");
            }
        }
    }

    #[test]
    fn the_order_of_puts_does_not_matter(pages in pages(), asked in text(6)) {
        let (one, other) = (index(&pages), index(pages.iter().rev()));
        prop_assert_eq!(one.bytes(), other.bytes());
        for query in both(&asked) {
            prop_assert_eq!(one.search(&query), other.search(&query));
        }
    }

    #[test]
    fn an_index_that_changed_is_as_a_fresh_one(
        pages in pages(),
        changes in vec(("[a-e]{1,2}", page()), 0..8),
        removed in vec(any::<Place>(), 0..4),
        asked in text(6),
    ) {
        let mut changed = index(&pages);
        for (id, page) in &changes {
            changed.put(id, 7, page.entry());
        }
        for (id, _) in &changes {
            changed.remove(id);
        }
        let mut left = pages.clone();
        left.retain(|id, _| changes.iter().all(|(other, _)| other != id));
        for place in removed.iter().filter(|_| !pages.is_empty()) {
            let (id, (version, page)) = pages.iter().nth(place.index(pages.len())).unwrap();
            changed.put(id, *version, page.entry());
            left.insert(id.clone(), (*version, page.clone()));
        }
        let fresh = index(&left);
        prop_assert_eq!(changed.len(), fresh.len());
        prop_assert_eq!(changed.bytes(), fresh.bytes());
        for query in both(&asked) {
            prop_assert_eq!(changed.search(&query), fresh.search(&query));
        }
    }
}
