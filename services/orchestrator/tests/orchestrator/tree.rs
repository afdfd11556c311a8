//! The nodes of an execution tree.

use crate::support::{Author, World, chain, tool_step};
use crate::views::varied;
use cairn_proto::orchestrator as pb;

/// The trace ids of the nodes of a tree.
async fn traces(world: &World, session: &str) -> Vec<String> {
    let request = pb::GetTreeRequest {
        session: session.to_owned(),
        ..pb::GetTreeRequest::default()
    };
    let tree = world.client.clone().get_tree(request).await;
    let nodes = tree.expect("a tree").into_inner().nodes;
    nodes.into_iter().map(|node| node.trace_id).collect()
}

#[tokio::test(start_paused = true)]
async fn each_node_carries_the_trace_of_its_run() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let world = World::new().await;
    let mut run = chain(vec![tool_step("pure")]);
    run.trace_parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let session = world.start(run).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    assert!(attempt.settled().await);
    let traces_of_run = traces(&world, &session).await;
    assert!(traces_of_run.len() >= 3, "a goal, an action and its result");
    assert!(traces_of_run.iter().all(|trace| trace == TRACE));

    let mut author = Author::new(&world, "s-untraced");
    author.write(varied()).await;
    let untraced = traces(&world, "s-untraced").await;
    assert!(!untraced.is_empty() && untraced.iter().all(String::is_empty));
}
