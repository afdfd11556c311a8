//! Pages of knowledge: they are stored, and found by their words. Searches with both scorers, with tags and with a
//! minimum score show the ranks, and what a threshold leaves out.
//!
//! `cargo run -q -p cairn --example knowledge_search`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn::node::Node;
use cairn_orchestrator::Scorer;
use cairn_proto::api as pb;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_rpc::{Link, RpcError};
use common::{offline, parts, short};
use std::path::Path;

type Knowledge = KnowledgeServiceClient<Link>;

/// Ids, titles, texts and tags.
const PAGES: [(&str, &str, &str, &[&str]); 5] = [
    (
        "keys",
        "Rotating the signing keys",
        "Rotate the keys on the first Monday of each month.\nThe old key stays valid for a week.",
        &["ops", "security"],
    ),
    (
        "backup",
        "Backups",
        "The archive is written to tape every night.\nA copy of the signing keys lies in the safe.",
        &["ops"],
    ),
    (
        "release",
        "How a release is made",
        "Tag the commit, wait for the tests, and publish the image.",
        &["ops", "release"],
    ),
    (
        "piano",
        "The piano in the hall",
        "It has 88 keys. Please close the lid.",
        &["house"],
    ),
    (
        "migration",
        "数据库迁移",
        "迁移前先停止写入，再备份数据库。",
        &["ops"],
    ),
];

async fn start(folder: &Path, scorer: Scorer) -> Result<Node> {
    let mut parts = parts(folder, offline(), Vec::new())?;
    // As `[knowledge]` in the settings.
    parts.orchestrator.knowledge.scorer = scorer;
    Box::pin(Node::start(parts)).await.context("a node")
}

fn page((id, title, text, tags): (&str, &str, &str, &[&str])) -> pb::PutPageRequest {
    pb::PutPageRequest {
        request_id: format!("put-{id}"),
        id: Some(id.to_owned()),
        title: title.to_owned(),
        text: text.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        expected_version: None,
    }
}

/// Searches, and shows the hits by their ranks.
async fn search(
    knowledge: &mut Knowledge,
    query: &str,
    tags: &[&str],
    min_score: Option<f64>,
) -> Result<Vec<(String, f64)>> {
    let request = pb::SearchPagesRequest {
        query: query.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        max: 0,
        min_score,
    };
    let hits = knowledge.search_pages(request).await?.into_inner().hits;
    println!("{query:?}");
    let mut found = Vec::new();
    for (rank, hit) in (1..).zip(hits) {
        let page = hit.page.context("a page")?;
        let (score, title) = (hit.score, page.title);
        println!("  {rank}. {score:.2}  {title}  [{}]", page.tags.join(", "));
        println!("           {}", short(&hit.excerpt, 70));
        assert!(score > 0.0 && score <= 1.0, "{score}");
        found.push((page.id, score));
    }
    if found.is_empty() {
        println!("  nothing");
    }
    assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
    Ok(found)
}

fn ids(found: &[(String, f64)]) -> Vec<&str> {
    found.iter().map(|(id, _)| id.as_str()).collect()
}

async fn put_all(knowledge: &mut Knowledge) -> Result<()> {
    for new in PAGES {
        knowledge.put_page(page(new)).await?;
    }
    // A retry of the same request changes nothing, and has the same answer.
    let again = knowledge.put_page(page(PAGES[0])).await?.into_inner().page;
    assert_eq!(again.context("a page")?.version, 1);
    // A change can require the version that its client has read.
    let stale = pb::PutPageRequest {
        request_id: "late".to_owned(),
        expected_version: Some(1),
        ..page(PAGES[1])
    };
    let refused = knowledge.put_page(stale).await.err();
    let refused = RpcError::from_status(&refused.context("the version is another")?);
    println!("{}: {refused}\n", refused.reason_name());
    assert_eq!(refused.reason_name(), "VERSION_MISMATCH");
    Ok(())
}

/// The words that a page shares with the query decide, and how rare they are.
async fn by_words(knowledge: &mut Knowledge) -> Result<()> {
    println!("── words: case and endings do not matter ──");
    let found = search(knowledge, "When do we ROTATE a signing key?", &[], None).await?;
    assert_eq!(ids(&found)[0], "keys");
    let found = search(knowledge, "备份数据库", &[], None).await?;
    assert_eq!(ids(&found), ["migration"]);
    let found = search(knowledge, "the of and", &[], None).await?;
    assert!(found.is_empty(), "common words do not count");

    println!("\n── tags: a page has all of them ──");
    let found = search(knowledge, "keys", &["ops"], None).await?;
    assert!(!ids(&found).contains(&"piano"), "{found:?}");
    let found = search(knowledge, "keys", &["security", "ops"], None).await?;
    assert_eq!(ids(&found), ["keys"]);
    Ok(())
}

async fn by_score(knowledge: &mut Knowledge) -> Result<()> {
    println!("\n── a minimum score ──");
    let query = "rotating the signing keys";
    let all = search(knowledge, query, &[], None).await?;
    assert!(all.len() > 1, "several pages have one of the words");
    let least = (all[0].1 + all[1].1) / 2.0;
    println!("at least {least:.2}:");
    let some = search(knowledge, query, &[], Some(least)).await?;
    assert_eq!(some, all[..1]);
    let left_out: Vec<_> = all[1..].iter().map(|(id, _)| id.as_str()).collect();
    println!("left out: {}", left_out.join(", "));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let node = start(folder.path(), Scorer::Bm25).await?;
    let mut knowledge = Knowledge::new(node.link());
    put_all(&mut knowledge).await?;
    by_words(&mut knowledge).await?;
    by_score(&mut knowledge).await?;
    let query = "signing keys in the safe";
    println!("\n── one query, two scorers ──\nBM25: a rare word counts more");
    let bm25 = search(&mut knowledge, query, &[], None).await?;
    node.drain().await;
    node.close().await;
    drop(node);

    // The pages are in the store. The index is built anew.
    let node = start(folder.path(), Scorer::Dice).await?;
    let mut knowledge = Knowledge::new(node.link());
    println!("Dice: the share of words in common");
    let dice = search(&mut knowledge, query, &[], None).await?;
    assert_eq!((ids(&bm25)[0], ids(&dice)[0]), ("backup", "backup"));
    assert_ne!(bm25[0].1, dice[0].1, "another measure");
    node.drain().await;
    Ok(())
}
