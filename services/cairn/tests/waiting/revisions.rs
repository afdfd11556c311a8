//! The table of revisions, which the engine is held to, through the public service over each store: a
//! run in every status gets another plan of every kind, what becomes of each step is read back, and
//! then exactly those steps are carried out whose results do not count.
//!
//! The table has 33 revisions in 6 statuses, written by hand, and runs in a file, on Redis and on
//! a cluster.

mod case;
#[path = "../../../../shared/engine/tests/engine/world/notation/plan.rs"]
mod plan;
mod script;
#[path = "../../../../shared/engine/tests/engine/world/table.rs"]
mod table;

use crate::support;
use cairn_model::{ModelRegistry, RetryPolicy};
use cairn_testkit::TestStore;
use case::Case;
use futures::StreamExt as _;
use script::{Played, Script, Scripted};
use std::sync::Arc;
use std::time::Instant;
use support::{client, node, parts_over};
use table::{CHAINS, GRAPHS, STAGES};

/// Cases at the same time.
const AT_ONCE: usize = 12;

/// Every row at every stage, each in a session of its own.
async fn check_all(store: TestStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let script = Arc::new(Script::default());
    let mut parts = parts_over(&store, folder.path(), models(&script));
    let began = Instant::now();
    parts.more_tools.push(Scripted::tool(Arc::clone(&script)));
    parts.executor.retry = RetryPolicy::never();
    let node = node(parts).await;
    let rows = CHAINS.iter().chain(&GRAPHS).enumerate();
    let cases = rows.flat_map(|(number, row)| STAGES.map(|stage| (number, row, stage)));
    let cases = cases.map(|(number, row, stage)| {
        let case = Case::new(number, row, stage, client(&node), Arc::clone(&script));
        tokio::spawn(Box::pin(case.check()))
    });
    let mut checked = 0;
    let mut running = futures::stream::iter(cases).buffer_unordered(AT_ONCE);
    while let Some(case) = running.next().await {
        case.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        checked += 1;
    }
    println!("{checked} cases in {:.1?}", began.elapsed());
    assert_eq!(checked, (CHAINS.len() + GRAPHS.len()) * STAGES.len());
    node.drain().await;
}

fn models(script: &Arc<Script>) -> ModelRegistry {
    let mut models = ModelRegistry::new();
    models.insert("played", Arc::new(Played(Arc::clone(script))));
    models
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_over_a_file() {
    check_all(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::{TestStore, check_all};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_table_over_redis() {
        check_all(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_table_over_a_cluster() {
        check_all(TestStore::cluster()).await;
    }
}
