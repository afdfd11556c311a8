//! Pages of knowledge, as clients store, read, list, delete and find them.

mod contract;

use crate::support::{Fault, Pages, World};
use cairn_knowledge::{Entry, Index};
use cairn_memory::port::Limits;
use cairn_orchestrator::{Config, KnowledgeConfig};
use cairn_proto::api as pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{Authenticate, Authentication, ErrorKind, Exposure, Principal, RpcError};
use std::sync::Arc;
use std::time::Duration;
use tonic::Request;
use tonic::codegen::http;

const KEYS: &str =
    "# Keys\n\nRotate the keys of the gateway each month.\nAsk the operators first.\n";

fn request(world: &World, id: &str, text: &str) -> pb::PutPageRequest {
    pb::PutPageRequest {
        request_id: world.request_id(),
        id: Some(id.to_owned()),
        title: format!("Page {id}"),
        text: text.to_owned(),
        ..pb::PutPageRequest::default()
    }
}

async fn put(world: &World, request: pb::PutPageRequest) -> Result<pb::Page, RpcError> {
    let put = world.knowledge.clone().put_page(request).await?;
    Ok(put.into_inner().page.expect("a page"))
}

/// Stores a page.
async fn store(world: &World, id: &str, text: &str) {
    let stored = put(world, request(world, id, text)).await;
    stored.expect("stored");
}

async fn get(world: &World, id: &str) -> Result<pb::Page, RpcError> {
    let request = pb::GetPageRequest { id: id.to_owned() };
    let got = world.knowledge.clone().get_page(request).await?;
    Ok(got.into_inner().page.expect("a page"))
}

async fn delete(world: &World, id: &str, expected: Option<u64>) -> Result<(), RpcError> {
    delete_as(world, &world.request_id(), id, expected).await
}

async fn delete_as(
    world: &World,
    request_id: &str,
    id: &str,
    expected: Option<u64>,
) -> Result<(), RpcError> {
    let request = pb::DeletePageRequest {
        request_id: request_id.to_owned(),
        id: id.to_owned(),
        expected_version: expected,
    };
    world.knowledge.clone().delete_page(request).await?;
    Ok(())
}

async fn answer(
    world: &World,
    page_size: u32,
    page_token: String,
) -> Result<pb::ListPagesResponse, RpcError> {
    let request = pb::ListPagesRequest {
        page_size,
        page_token,
    };
    let listed = world.knowledge.clone().list_pages(request).await?;
    Ok(listed.into_inner())
}

async fn listed(world: &World, page_size: u32) -> Vec<pb::Page> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let answer = answer(world, page_size, token).await.expect("an answer");
        assert!(page_size == 0 || answer.pages.len() <= page_size as usize);
        pages.extend(answer.pages);
        token = answer.next_page_token;
        if token.is_empty() {
            return pages;
        }
    }
}

fn query(query: &str) -> pb::SearchPagesRequest {
    pb::SearchPagesRequest {
        query: query.to_owned(),
        ..pb::SearchPagesRequest::default()
    }
}

async fn hits(
    mut pages: Pages,
    request: pb::SearchPagesRequest,
) -> Result<Vec<pb::PageHit>, RpcError> {
    Ok(pages.search_pages(request).await?.into_inner().hits)
}

/// The ids of the pages that are found, the best first.
async fn found(pages: &Pages, request: pb::SearchPagesRequest) -> Vec<String> {
    let hits = hits(pages.clone(), request).await.expect("hits");
    let pages = hits.into_iter().map(|hit| hit.page.expect("a page"));
    pages.map(|page| page.id).collect()
}

/// Checks kind and reason of an error.
fn check(error: &RpcError, kind: ErrorKind, reason: &str) {
    let is = (error.kind(), error.reason_name());
    assert_eq!(is, (kind, reason), "{error}");
}

fn with_memory(index_bytes: usize) -> Config {
    Config {
        knowledge: KnowledgeConfig {
            index_bytes,
            ..KnowledgeConfig::default()
        },
        ..Config::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_is_read_as_it_was_stored() {
    let world = World::new().await;
    let tags = ["ops", "keys", "ops"].map(str::to_owned).to_vec();
    let tagged = pb::PutPageRequest {
        tags,
        ..request(&world, "keys", KEYS)
    };
    let stored = put(&world, tagged).await.expect("stored");
    assert_eq!((stored.id.as_str(), stored.version), ("keys", 1));
    assert_eq!(stored.text, KEYS);
    assert_eq!(stored.change_time, None);
    assert_eq!(stored.tags, ["keys", "ops"]);
    let read = pb::Page {
        change_time: Some(timestamp(world.now())),
        ..stored
    };
    assert_eq!(get(&world, "keys").await.expect("a page"), read);
    let summary = pb::Page {
        text: String::new(),
        ..read
    };
    assert_eq!(listed(&world, 0).await, [summary]);
    let error = get(&world, "lost").await.expect_err("not there");
    check(&error, ErrorKind::NotFound, "PAGE_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_the_first_answer_and_the_id_that_was_made() {
    let world = World::new().await;
    let first = pb::PutPageRequest {
        id: None,
        request_id: "x".repeat(128),
        ..request(&world, "", KEYS)
    };
    world.faults.next("PutDocument", Fault::LoseAnswer, 1);
    let lost = put(&world, first.clone()).await.expect_err("no answer");
    check(&lost, ErrorKind::Unavailable, "OUTCOME_UNKNOWN");
    let stored = put(&world, first.clone()).await.expect("a retry");
    assert!(stored.id.starts_with("page-"), "{}", stored.id);
    store(&world, &stored.id, "Else.").await;
    let again = put(&world, first.clone()).await.expect("a retry");
    assert_eq!((again.id.as_str(), again.version), (stored.id.as_str(), 1));
    assert_eq!(get(&world, &stored.id).await.expect("a page").version, 2);
    let other = pb::PutPageRequest {
        text: "Other.".to_owned(),
        ..first
    };
    let error = put(&world, other).await.expect_err("refused");
    check(&error, ErrorKind::AlreadyExists, "REQUEST_MISMATCH");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_version_is_refused() {
    let world = World::new().await;
    for (expected, outcome) in [
        (3, Err("0")),
        (0, Ok(1)),
        (0, Err("1")),
        (1, Ok(2)),
        (1, Err("2")),
    ] {
        let expecting = pb::PutPageRequest {
            expected_version: Some(expected),
            ..request(&world, "keys", KEYS)
        };
        match (put(&world, expecting).await, outcome) {
            (Ok(stored), Ok(version)) => assert_eq!(stored.version, version),
            (Err(error), Err(version)) => {
                check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
                assert_eq!(error.metadata("version"), Some(version));
            }
            (put, _) => panic!("{expected}: {put:?}"),
        }
    }
    let error = delete(&world, "keys", Some(1)).await.expect_err("refused");
    check(&error, ErrorKind::FailedPrecondition, "VERSION_MISMATCH");
    delete(&world, "keys", Some(2)).await.expect("deleted");
    for expected in [None, Some(2)] {
        let error = delete(&world, "keys", expected).await.expect_err("gone");
        check(&error, ErrorKind::NotFound, "PAGE_NOT_FOUND");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_has_every_page_once_in_the_order_of_versions() {
    let world = World::new().await;
    for id in ["e", "d", "c", "b", "a"] {
        store(&world, id, "Text.").await;
    }
    delete(&world, "c", None).await.expect("deleted");
    store(&world, "e", "Else.").await;
    for size in [0, 1, 2, 1000] {
        let ids: Vec<_> = listed(&world, size)
            .await
            .into_iter()
            .map(|it| it.id)
            .collect();
        assert_eq!(ids, ["d", "b", "a", "e"], "{size}");
    }
    let first = answer(&world, 1, String::new()).await.expect("an answer");
    let elsewhere = format!("{}x", first.next_page_token);
    let error = answer(&world, 1, elsewhere).await.expect_err("refused");
    check(&error, ErrorKind::OutOfRange, "RELIST");
    let of_agents = first.next_page_token.replace("pages.", "");
    let error = answer(&world, 1, of_agents).await.expect_err("refused");
    assert_eq!(error.violations()[0].field, "page_token");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_full_takes_no_further_page() {
    let limits = Limits {
        documents: 1,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    store(&world, "a", "Text.").await;
    let error = put(&world, request(&world, "b", "Text.")).await;
    let error = error.expect_err("refused");
    check(&error, ErrorKind::ResourceExhausted, "LIMIT");
    assert_eq!(
        error.to_string(),
        "the namespace has 1 pages, which is the most; delete one first"
    );
    store(&world, "a", "Else.").await;
}

#[tokio::test(start_paused = true)]
async fn pages_are_found_by_words_of_both_languages() {
    let world = World::new().await;
    let keys = pb::PutPageRequest {
        tags: vec!["Ops".to_owned(), "security".to_owned()],
        ..request(&world, "keys", KEYS)
    };
    put(&world, keys).await.expect("stored");
    let deployment = "发布与部署的流程说明。\n先在测试环境验证。\n";
    store(&world, "deployment", deployment).await;
    store(&world, "lunch", "The canteen opens at noon.").await;

    let hits = hits(world.knowledge.clone(), query("rotating the gateway's key"));
    let [hit] = <[_; 1]>::try_from(hits.await.expect("hits")).expect("one hit");
    let page = hit.page.expect("a page");
    assert_eq!((page.id.as_str(), page.text.as_str()), ("keys", ""));
    assert_eq!(page.change_time, Some(timestamp(world.now())));
    assert!(hit.score > 0.0 && hit.score <= 1.0, "{}", hit.score);
    assert!(hit.excerpt.contains("Rotate the keys"), "{}", hit.excerpt);
    assert_eq!(
        found(&world.knowledge, query("部署流程")).await,
        ["deployment"]
    );
    assert!(found(&world.knowledge, query("the of 的")).await.is_empty());

    let both = "canteen gateway";
    assert_eq!(found(&world.knowledge, query(both)).await.len(), 2);
    let one = pb::SearchPagesRequest {
        max: 1,
        ..query(both)
    };
    assert_eq!(found(&world.knowledge, one).await.len(), 1);
    let tagged = pb::SearchPagesRequest {
        tags: vec!["ops".to_owned()],
        ..query(both)
    };
    assert_eq!(found(&world.knowledge, tagged).await, ["keys"]);
    let perfect = pb::SearchPagesRequest {
        min_score: Some(1.0),
        ..query(both)
    };
    assert!(found(&world.knowledge, perfect).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_settings_have_the_least_score_of_a_search_that_names_none() {
    let config = Config {
        knowledge: KnowledgeConfig {
            min_score: 1.0,
            ..KnowledgeConfig::default()
        },
        ..Config::default()
    };
    let world = World::with_config(config).await;
    store(&world, "keys", KEYS).await;
    assert!(
        found(&world.knowledge, query("gateway lunch"))
            .await
            .is_empty()
    );
    let any = pb::SearchPagesRequest {
        min_score: Some(0.0),
        ..query("gateway lunch")
    };
    assert_eq!(found(&world.knowledge, any).await, ["keys"]);
}

#[tokio::test(start_paused = true)]
async fn the_very_next_search_at_another_server_finds_a_page() {
    let world = World::new().await;
    let public = Exposure::Public(None);
    let (other, _running) = world.another_knowledge(Config::default(), public).await;
    assert!(found(&other, query("gateway")).await.is_empty());
    store(&world, "keys", KEYS).await;
    assert_eq!(found(&other, query("gateway")).await, ["keys"]);
    store(&world, "keys", "Nothing rotates here.").await;
    assert!(found(&other, query("gateway")).await.is_empty());
    assert_eq!(found(&other, query("rotates")).await, ["keys"]);
    delete(&world, "keys", None).await.expect("deleted");
    assert!(found(&other, query("rotates")).await.is_empty());
}

/// The list that is being read was sent before the page was stored.
#[tokio::test(start_paused = true)]
async fn a_search_does_not_do_with_a_list_that_was_read_before_it() {
    let world = World::new().await;
    let mut held = world.faults.hold_answer("ListDocuments");
    let first = tokio::spawn(hits(world.knowledge.clone(), query("gateway")));
    held.reached().await;
    store(&world, "keys", KEYS).await;
    let second = tokio::spawn(hits(world.knowledge.clone(), query("gateway")));
    world.settle().await;
    held.release();
    first.await.expect("no panic").expect("hits");
    let second = second.await.expect("no panic").expect("hits");
    assert_eq!(second.len(), 1);
}

/// With one tombstone at most, the store has forgotten that the first page was deleted.
#[tokio::test(start_paused = true)]
async fn an_index_whose_list_cannot_continue_is_built_anew() {
    let limits = Limits {
        documents: 1,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    store(&world, "a", KEYS).await;
    assert_eq!(found(&world.knowledge, query("gateway")).await, ["a"]);
    delete(&world, "a", None).await.expect("deleted");
    store(&world, "b", KEYS).await;
    delete(&world, "b", None).await.expect("deleted");
    store(&world, "c", KEYS).await;
    let lists = world.faults.calls("ListDocuments");
    assert_eq!(found(&world.knowledge, query("gateway")).await, ["c"]);
    assert_eq!(world.faults.calls("ListDocuments"), lists + 2);
}

#[tokio::test(start_paused = true)]
async fn a_search_without_a_store_fails_and_the_next_one_finds() {
    let world = World::new().await;
    store(&world, "keys", KEYS).await;
    for method in ["ListDocuments", "GetDocument"] {
        world.faults.next(method, Fault::Refuse, 1);
        let error = hits(world.knowledge.clone(), query("gateway")).await;
        let error = error.expect_err("no store");
        check(&error, ErrorKind::Unavailable, "NOT_WRITTEN");
    }
    assert_eq!(found(&world.knowledge, query("gateway")).await, ["keys"]);
}

/// A text of many different words.
fn words(count: usize) -> String {
    let words = (0..count).map(|number| format!("word{number} "));
    words.collect()
}

#[tokio::test(start_paused = true)]
async fn an_index_that_does_not_fit_by_itself_is_a_limit() {
    let world = World::with_config(with_memory(32 * 1024)).await;
    store(&world, "small", KEYS).await;
    assert_eq!(found(&world.knowledge, query("gateway")).await, ["small"]);
    store(&world, "large", &words(2000)).await;
    for _ in 0..2 {
        let error = hits(world.knowledge.clone(), query("gateway")).await;
        let error = error.expect_err("it does not fit");
        check(&error, ErrorKind::ResourceExhausted, "LIMIT");
        assert!(
            error.to_string().contains("knowledge.index_bytes"),
            "{error}"
        );
    }
    assert_eq!(get(&world, "large").await.expect("a page").version, 2);
    delete(&world, "large", None).await.expect("deleted");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(found(&world.knowledge, query("gateway")).await, ["small"]);
}

/// Takes the namespace of a caller from its metadata.
pub(crate) struct ByTenant;

#[tonic::async_trait]
impl Authenticate for ByTenant {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, RpcError> {
        let tenant = request.headers.get("tenant").expect("a tenant");
        let namespace = tenant.to_str().expect("a text").parse()?;
        Principal::new(Authentication::Token, "anne", namespace)
    }
}

/// A request of that tenant; see [`ByTenant`].
pub(crate) fn of<T>(tenant: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let tenant = tenant.parse().expect("a value");
    request.metadata_mut().insert("tenant", tenant);
    request
}

/// The memory holds one of their indexes at a time.
#[tokio::test(start_paused = true)]
async fn namespaces_share_the_memory_and_do_not_see_each_other() {
    let world = World::new().await;
    let text = |own: &str| format!("{}{own}", words(2000));
    let mut index = Index::new();
    let (id, title, own) = ("red", "Page red", text("red"));
    let entry = Entry {
        title,
        text: &own,
        tags: &[],
    };
    index.put(id, 1, entry);
    let most = index.bytes() * 3 / 2 + 2 * 1024;
    assert!(index.bytes() > 8 * 1024);
    let public = Exposure::Public(Some(Arc::new(ByTenant)));
    let (mut pages, _running) = world.another_knowledge(with_memory(most), public).await;
    let tenants = ["red", "blue"];
    for tenant in tenants {
        let page = request(&world, tenant, &text(tenant));
        let put = pages.put_page(of(tenant, page)).await;
        put.expect("stored");
    }
    for _ in 0..2 {
        for tenant in tenants {
            let search = of(tenant, query("red blue word7"));
            let found = pages.search_pages(search).await.expect("hits");
            let hits = found.into_inner().hits.into_iter();
            let ids: Vec<_> = hits.map(|hit| hit.page.expect("a page").id).collect();
            assert_eq!(ids, [tenant]);
        }
    }
    let id = "red".to_owned();
    let error = pages.get_page(of("blue", pb::GetPageRequest { id })).await;
    let error = RpcError::from(error.expect_err("not there"));
    check(&error, ErrorKind::NotFound, "PAGE_NOT_FOUND");
}
