use super::{Entry, Hit, Index, Query};
use crate::Scorer;

mod hostile;
mod naive;

#[derive(Clone, Debug)]
struct Page {
    title: String,
    text: String,
    tags: Vec<String>,
}

impl Page {
    fn new(title: &str, text: &str, tags: &[&str]) -> Self {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Self {
            title: title.to_owned(),
            text: text.to_owned(),
            tags,
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            title: &self.title,
            text: &self.text,
            tags: &self.tags,
        }
    }
}

fn query(text: &str) -> Query<'_> {
    Query {
        text,
        tags: &[],
        max: 10,
        min_score: 0.0,
        scorer: Scorer::Bm25,
    }
}

fn ids(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.id.as_str()).collect()
}

#[test]
fn a_page_of_average_length_with_each_word_once_has_one_half() {
    let mut index = Index::new();
    for id in ["a", "b", "c"] {
        let page = Page::new("", &format!("{id}pple {id}vocado walnut"), &[]);
        index.put(id, 1, page.entry());
    }
    let hits = index.search(&query("bpple bvocado walnut"));
    assert_eq!(ids(&hits)[0], "b");
    assert!((hits[0].score - 0.5).abs() < 1e-9, "{hits:?}");
    let in_title = Page::new("bpple bvocado walnut", "bpple bvocado walnut", &[]);
    index.put("b", 1, in_title.entry());
    assert!(index.search(&query("bpple bvocado walnut"))[0].score > 0.5);
}

fn wiki() -> Index {
    let mut index = Index::new();
    let pages = [
        (
            "soup",
            Page::new(
                "Lentil soup",
                "Rinse the lentils, then simmer.",
                &["Kitchen"],
            ),
        ),
        (
            "tea",
            Page::new(
                "Tea",
                "Boil water. Lentils are not needed.",
                &["kitchen", "Drinks"],
            ),
        ),
        (
            "vpn",
            Page::new(
                "VPN",
                "Uploads stall if packets are too large.",
                &["network"],
            ),
        ),
        (
            "db",
            Page::new("数据库备份", "每天凌晨备份一次数据库。", &["运维"]),
        ),
    ];
    for (version, (id, page)) in (1..).zip(&pages) {
        index.put(id, version, page.entry());
    }
    index
}

#[test]
fn a_title_counts_more_than_a_text() {
    assert_eq!(ids(&wiki().search(&query("lentil"))), ["soup", "tea"]);
    assert_eq!(ids(&wiki().search(&query("备份数据"))), ["db"]);
}

#[test]
fn tags_narrow_the_hits_without_case() {
    let tags = ["KITCHEN".to_owned(), "drinks".to_owned()];
    assert_eq!(
        ids(&wiki().search(&Query {
            tags: &tags,
            ..query("lentil")
        })),
        ["tea"]
    );
    let tags = ["kitchens".to_owned()];
    assert_eq!(
        wiki().search(&Query {
            tags: &tags,
            ..query("lentil")
        }),
        []
    );
}

#[test]
fn hits_have_the_least_score_and_at_most_the_maximum() {
    let all = wiki().search(&query("lentil"));
    let best = all[0].score;
    assert_eq!(
        wiki().search(&Query {
            min_score: best,
            ..query("lentil")
        }),
        all[..1]
    );
    assert_eq!(
        wiki().search(&Query {
            max: 1,
            ..query("lentil")
        }),
        all[..1]
    );
    assert_eq!(
        wiki().search(&Query {
            max: 0,
            ..query("lentil")
        }),
        []
    );
    assert_eq!(
        wiki().search(&Query {
            min_score: f64::NAN,
            ..query("lentil")
        }),
        []
    );
}

#[test]
fn a_query_of_stop_words_finds_nothing() {
    for text in ["", "what is the", "为什么的", "?!", "are not too"] {
        for scorer in Scorer::ALL {
            assert_eq!(
                wiki().search(&Query {
                    scorer,
                    ..query(text)
                }),
                [],
                "{text}"
            );
        }
    }
}

#[test]
fn of_equal_scores_the_newer_version_is_first_then_the_lesser_id() {
    let mut index = Index::new();
    let page = Page::new("Same", "words", &[]);
    for (id, version) in [("b", 1), ("c", 2), ("a", 1), ("d", 1)] {
        index.put(id, version, page.entry());
    }
    assert_eq!(ids(&index.search(&query("words"))), ["c", "a", "b", "d"]);
    assert_eq!(
        ids(&index.search(&Query {
            max: 2,
            ..query("words")
        })),
        ["c", "a"]
    );
}

#[test]
fn an_entry_takes_the_place_of_one_with_its_id() {
    let mut index = wiki();
    index.put("soup", 9, Page::new("Carrots", "Peel them.", &[]).entry());
    assert_eq!(index.len(), 4);
    assert_eq!(ids(&index.search(&query("lentil"))), ["tea"]);
    assert_eq!(ids(&index.search(&query("carrot"))), ["soup"]);
}

#[test]
fn an_index_without_entries_takes_no_memory() {
    let mut index = wiki();
    assert!(!index.remove("coffee"));
    for id in ["soup", "tea", "vpn", "db"] {
        assert!(index.remove(id) && !index.remove(id));
    }
    assert!(index.is_empty());
    assert_eq!(index.bytes(), 0);
    assert_eq!(index.search(&query("lentil")), []);
}

#[test]
fn the_estimate_is_near_the_memory_that_is_allocated() {
    let pages: Vec<_> = (0..2000)
        .map(|page| {
            let words: String = (0..120)
                .map(|word| format!("w{} ", (page * word) % 9973))
                .collect();
            Page::new(&format!("Page {page}"), &words, &["tag"])
        })
        .collect();
    let mut index = Index::new();
    let info = allocation_counter::measure(|| {
        for (number, page) in (0..).zip(&pages) {
            index.put(&format!("page-{number}"), number, page.entry());
        }
    });
    let estimate = index.bytes() as f64;
    let allocated = info.bytes_current as f64;
    assert!(
        (0.7..1.4).contains(&(estimate / allocated)),
        "{estimate} for {allocated}"
    );
}
