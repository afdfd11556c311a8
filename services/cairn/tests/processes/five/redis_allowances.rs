//! Two tools processes over Redis hold what a person allows at one of them, and after a kill of both still do.

use super::site_with_lease;
use crate::support::link;
use crate::support::mcp::SERVER;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{AllowToolRequest, ListToolsRequest, ListToolsResponse, ToolSpec};
use cairn_rpc::Link;
use cairn_testkit::{Cluster, Site, TestStore, eventually_async};
use std::time::{Duration, Instant};

/// So soon the other process holds what one allowed.
const SOON: Duration = Duration::from_secs(1);
/// How long a process holds the question for another list.
const WAIT_MS: u32 = 30_000;
const TOOL: &str = "ops__deploy";

type Tools = ToolsServiceClient<Link>;

fn site() -> Site {
    let site = site_with_lease("1s");
    site.write("server.sh", SERVER);
    let server = "\n[mcp.servers.ops]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n\
                  protocol = \"2026-07-28\"\n";
    site.append("cairn.toml", server);
    site
}

/// Each process of tools by itself.
fn each(cluster: &Cluster<'_>) -> Vec<Tools> {
    let addresses = cluster.addresses("tools").into_iter();
    addresses.map(|it| Tools::new(link(&it))).collect()
}

/// The list of a process once it is another one than that.
async fn listed(tools: &mut Tools, known_digest: &str) -> Option<ListToolsResponse> {
    let wait_ms = if known_digest.is_empty() { 0 } else { WAIT_MS };
    let known_digest = known_digest.to_owned();
    let request = ListToolsRequest {
        known_digest,
        wait_ms,
    };
    let listed = tools.list_tools(request).await;
    listed.ok().map(tonic::Response::into_inner)
}

fn tool(listed: &ListToolsResponse) -> Option<&ToolSpec> {
    listed.tools.iter().find(|tool| tool.name == TOOL)
}

/// Waits until each process lists the tool, which can be called or cannot.
async fn until_each(cluster: &Cluster<'_>, is_callable: bool) {
    for mut tools in each(cluster) {
        eventually_async(format!("{TOOL}, callable: {is_callable}"), async || {
            let listed = listed(&mut tools, "").await?;
            let disabled = &tool(&listed)?.disabled;
            (disabled.is_empty() == is_callable).then_some(())
        })
        .await;
    }
}

fn kill_both(cluster: &mut Cluster<'_>) {
    let both = cluster.members_of("tools");
    both.iter().for_each(|member| cluster.kill_member(*member));
    both.iter().for_each(|member| cluster.begin(*member));
    both.iter().for_each(|member| cluster.wait(*member));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_tools_process_allows_the_other_holds_at_once_and_after_a_kill_of_both() {
    let (site, store) = (site(), TestStore::redis());
    let mut cluster = Cluster::several(&site, &store.variables(), [1, 2, 1, 1, 1]);
    until_each(&cluster, true).await;

    // From its next start on, the server describes its tool otherwise.
    site.write("about", "Deploys everything.");
    kill_both(&mut cluster);
    until_each(&cluster, false).await;

    let mut both = each(&cluster);
    let [one, other] = &mut both[..] else {
        panic!("two processes");
    };
    let before = listed(other, "").await.expect("a list");
    let digest = tool(&before).expect("the tool").digest.clone();
    let allow = AllowToolRequest {
        name: TOOL.to_owned(),
        digest: digest.clone(),
    };
    let (after, allowed) = tokio::join!(
        async {
            let after = listed(other, &before.digest).await;
            (after.expect("another list"), Instant::now())
        },
        async {
            let answer = one.allow_tool(allow.clone()).await;
            (answer.expect("it is allowed").into_inner(), Instant::now())
        }
    );
    assert_eq!(allowed.0.digest, digest);
    let took = after.1.saturating_duration_since(allowed.1);
    println!("the other process holds it after {took:?}");
    assert!(took < SOON, "{took:?}");
    assert_eq!(tool(&after.0).expect("the tool").disabled, "");
    let again = other.allow_tool(allow).await.expect("a retry");
    assert_eq!(again.into_inner().digest, digest);

    kill_both(&mut cluster);
    until_each(&cluster, true).await;
    let file = site.state().join("cairn/trust.json");
    assert!(!file.exists(), "no process keeps it for itself");
}
