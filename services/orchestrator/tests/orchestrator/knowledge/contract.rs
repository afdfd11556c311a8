//! What the contract says of requests: the fields that are refused, the defaults, the bounds of answers, and retries of
//! deletions.

use super::{KEYS, answer, check, delete, delete_as, found, get, hits, put, query, request, store};
use crate::support::{Fault, World};
use cairn_knowledge::{Entry, Index, Query, Scorer};
use cairn_orchestrator::{Config, KnowledgeConfig};
use cairn_proto::api as pb;
use cairn_rpc::{ErrorKind, RpcError};

type Change<T> = fn(&mut T);

/// Checks that an error names one field.
fn check_field(error: &RpcError, field: &str) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{field}: {error}");
    let fields: Vec<&str> = error
        .violations()
        .iter()
        .map(|it| it.field.as_str())
        .collect();
    assert_eq!(fields, [field], "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_search_with_a_wrong_field_is_refused() {
    let world = World::new().await;
    let wrong: [(Change<pb::SearchPagesRequest>, &str); 9] = [
        (|it| it.query.clear(), "query"),
        (|it| it.query = "x".repeat(4 * 1024 + 1), "query"),
        (|it| it.tags = vec!["ops".to_owned(); 17], "tags"),
        (|it| it.tags = vec!["x".repeat(65)], "tags[0]"),
        (|it| it.max = 101, "max"),
        (|it| it.min_score = Some(-0.1), "min_score"),
        (|it| it.min_score = Some(1.1), "min_score"),
        (|it| it.min_score = Some(f64::NAN), "min_score"),
        (|it| it.min_score = Some(f64::INFINITY), "min_score"),
    ];
    for (change, field) in wrong {
        let mut request = query("gateway");
        change(&mut request);
        let error = hits(world.knowledge.clone(), request).await;
        check_field(&error.expect_err(field), field);
    }
    let widest = pb::SearchPagesRequest {
        tags: vec!["x".repeat(64); 16],
        max: 100,
        min_score: Some(1.0),
        ..query(&"x".repeat(4 * 1024))
    };
    assert!(found(&world.knowledge, widest).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_page_with_a_wrong_field_is_refused() {
    let world = World::new().await;
    let wrong: [(Change<pb::PutPageRequest>, &str); 8] = [
        (|it| it.request_id.clear(), "request_id"),
        (|it| it.request_id = "x".repeat(129), "request_id"),
        (|it| it.id = Some(String::new()), "id"),
        (|it| it.id = Some("x".repeat(129)), "id"),
        (|it| it.title.push('\n'), "title"),
        (|it| it.title = "é".repeat(129), "title"),
        (|it| it.text = " \n".to_owned(), "text"),
        (
            |it| it.tags = vec!["a".to_owned(), String::new()],
            "tags[1]",
        ),
    ];
    for (change, field) in wrong {
        let mut request = request(&world, "keys", KEYS);
        change(&mut request);
        let error = put(&world, request).await;
        check_field(&error.expect_err(field), field);
    }
    let largest = pb::PutPageRequest {
        title: "é".repeat(128),
        text: "x".repeat(200 * 1024),
        tags: (10..26).map(|tag| tag.to_string().repeat(32)).collect(),
        ..request(&world, &"x".repeat(128), "")
    };
    put(&world, largest).await.expect("stored");
}

#[tokio::test(start_paused = true)]
async fn other_requests_with_a_wrong_field_are_refused() {
    let world = World::new().await;
    store(&world, "keys", KEYS).await;
    check_field(&get(&world, "").await.expect_err("no id"), "id");
    let error = answer(&world, 1001, String::new()).await;
    check_field(&error.expect_err("too many"), "page_size");
    for (request_id, id, expected, field) in [
        ("", "keys", None, "request_id"),
        ("delete", "a b", None, "id"),
        ("delete", "keys", Some(0), "expected_version"),
    ] {
        let error = delete_as(&world, request_id, id, expected).await;
        check_field(&error.expect_err(field), field);
    }
    get(&world, "keys").await.expect("it is still there");
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_deletion_deletes_no_later_page() {
    let world = World::new().await;
    store(&world, "keys", KEYS).await;
    world.faults.next("DeleteDocument", Fault::LoseAnswer, 1);
    let delete_once = || delete_as(&world, "once", "keys", Some(1));
    let lost = delete_once().await.expect_err("no answer");
    check(&lost, ErrorKind::Unavailable, "OUTCOME_UNKNOWN");
    delete_once().await.expect("a retry");
    store(&world, "keys", KEYS).await;
    delete_once().await.expect("a retry");
    assert_eq!(get(&world, "keys").await.expect("a page").version, 3);
    let other = pb::PutPageRequest {
        request_id: "once".to_owned(),
        ..request(&world, "keys", KEYS)
    };
    let error = put(&world, other).await.expect_err("refused");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
    delete(&world, "keys", Some(3)).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_search_has_five_hits_unless_it_names_a_number() {
    let world = World::new().await;
    for number in 1..=7 {
        store(&world, &format!("p{number}"), KEYS).await;
    }
    // All fit alike, so the newest comes first.
    let best = found(&world.knowledge, query("gateway")).await;
    assert_eq!(best, ["p7", "p6", "p5", "p4", "p3"]);
    let more = pb::SearchPagesRequest {
        max: 6,
        ..query("gateway")
    };
    assert_eq!(found(&world.knowledge, more).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn an_excerpt_has_at_most_1_kib_with_the_lines_that_fit() {
    let world = World::new().await;
    let others = "发布与部署的流程说明。\n".repeat(40);
    let fitting = "先在测试环境验证。";
    let text = format!("{others}{fitting}\n{others}");
    store(&world, "deployment", &text).await;
    let hits = hits(world.knowledge.clone(), query("测试环境")).await;
    let excerpt = hits.expect("hits").remove(0).excerpt;
    assert!(excerpt.contains(fitting), "{excerpt}");
    assert!((512..=1024).contains(&excerpt.len()), "{}", excerpt.len());
}

#[tokio::test(start_paused = true)]
async fn the_settings_have_the_scorer() {
    let text = "gateway lunch";
    let mut index = Index::new();
    let entry = Entry {
        title: "Page keys",
        text: KEYS,
        tags: &[],
    };
    index.put("keys", 1, entry);
    let mut scores = Vec::new();
    for scorer in Scorer::ALL {
        let config = Config {
            knowledge: KnowledgeConfig {
                scorer,
                ..KnowledgeConfig::default()
            },
            ..Config::default()
        };
        let world = World::with_config(config).await;
        store(&world, "keys", KEYS).await;
        let hits = hits(world.knowledge.clone(), query(text)).await;
        let expected = index.search(&Query {
            text,
            tags: &[],
            max: 1,
            min_score: 0.0,
            scorer,
        });
        let score = hits.expect("hits")[0].score;
        assert!((score - expected[0].score).abs() < 1e-9, "{scorer:?}");
        scores.push(score);
    }
    assert!((scores[0] - scores[1]).abs() > 0.01, "{scores:?}");
}
