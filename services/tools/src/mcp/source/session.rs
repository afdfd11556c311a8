//! The task of a source: one connection after the other.

use super::super::Protocol;
use super::super::call::Live;
use super::super::connect::Connection;
use super::super::handler::Handler;
use super::super::list::{self, List};
use super::super::mask::Mask;
use super::super::pins;
use super::super::process::Process;
use super::super::tool::McpTool;
use super::{Shared, SourceState, Wait};
use crate::tool::Tool as _;
use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{ClientCacheConfig, Peer, RoleClient, Subscription};
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The wait after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A connection that lasts this long was no failure.
const STEADY: Duration = Duration::from_secs(60);
/// Between two looks for an allowance that another process may have kept.
const ALLOWANCE_LOOK: Duration = Duration::from_secs(5);
/// Least time between two lists of one connection.
const LIST_PAUSE: Duration = Duration::from_secs(1);
/// Shortest time that a server's word on how long its list holds is taken for.
const SHORTEST_HOLD: Duration = Duration::from_secs(10);
/// Longest such time.
const LONGEST_HOLD: Duration = Duration::from_secs(3600);
/// Between two lists over HTTP, which also show that the server is still there.
const HTTP_HOLD: Duration = Duration::from_secs(60);
/// How long the connection may take to close.
const CLOSE: Duration = Duration::from_secs(2);

/// Until the source is closed.
pub(super) async fn run(shared: Arc<Shared>) {
    tokio::select! {
        () = sessions(&shared) => {}
        () = follow_allowances(&shared) => {}
    }
}

/// Follows what people allow in other processes. Never ends.
async fn follow_allowances(shared: &Arc<Shared>) {
    let Some(mut changes) = shared.allowances.changes() else {
        return std::future::pending().await;
    };
    loop {
        shared.allowed.notify_one();
        shared.in_thread(Shared::refresh_later).await;
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn sessions(shared: &Arc<Shared>) {
    if !is_allowed(shared).await {
        return;
    }
    let mut pause = FIRST_PAUSE;
    let mut last_why = None;
    loop {
        let began = Instant::now();
        // None once the source is closed.
        let Some(why) = session(shared).await else {
            return;
        };
        if began.elapsed() >= STEADY {
            (pause, last_why) = (FIRST_PAUSE, None);
        }
        // Each reason once: it is tried again for as long as the process runs.
        if last_why.as_ref() == Some(&why) {
            tracing::debug!(server = &*shared.name, error = why, retry_in = ?pause, "server unreachable");
        } else {
            tracing::warn!(server = &*shared.name, error = why, retry_in = ?pause, "server unreachable");
        }
        shared.now().live = None;
        let state = SourceState::Unreachable(format!("it {why}"));
        shared.in_thread(|shared| shared.set_state(state)).await;
        last_why = Some(why);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.stop.cancelled() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits until it is known what was allowed, and for a person, if the server needs one. False if the source is
/// closed before.
async fn is_allowed(shared: &Arc<Shared>) -> bool {
    let mut shown = SourceState::Starting;
    let late = Instant::now() + Duration::from_millis(shared.target.config.start_ms);
    loop {
        let state = match shared.in_thread(Shared::allowance).await {
            Some(Ok(())) => break,
            None => return false,
            Some(Err(Wait::NotAllowed(why))) => SourceState::NotAllowed(why),
            Some(Err(Wait::Unknown(why))) if Instant::now() >= late => {
                SourceState::Unreachable(why)
            }
            Some(Err(Wait::Unknown(_))) => SourceState::Starting,
        };
        if state != shown {
            shown = state.clone();
            shared.in_thread(|shared| shared.set_state(state)).await;
        }
        tokio::select! {
            () = shared.allowed.notified() => {}
            () = tokio::time::sleep_until(late), if shown == SourceState::Starting => {}
            () = tokio::time::sleep(ALLOWANCE_LOOK) => {}
            () = shared.stop.cancelled() => return false,
        }
    }
    let starting = |shared: &Shared| shared.set_state(SourceState::Starting);
    shared.in_thread(starting).await;
    true
}

/// One connection, from start to end. Returns why it ended; nothing if the source is closed. One that takes
/// longer than the server's limit to start is shown as such, and continues.
async fn session(shared: &Arc<Shared>) -> Option<String> {
    let mut whole = Box::pin(connection(shared));
    let limit = Duration::from_millis(shared.target.config.start_ms);
    tokio::select! {
        ended = &mut whole => return ended,
        () = tokio::time::sleep(limit) => {}
    }
    shared.in_thread(Shared::end_wait).await;
    whole.await
}

async fn connection(shared: &Arc<Shared>) -> Option<String> {
    let prepared = shared.in_thread(|shared| {
        let target = &shared.target;
        // The folder may have become another one since.
        target.find_folder();
        let mask = Mask::of(&target.config, &target.programs.environment);
        (shared.remembered(), Arc::new(mask))
    });
    let (remembered, mask) = prepared.await?;
    let ended = Box::pin(connected(shared, remembered, mask.clone())).await;
    // It may have a server's own words.
    ended.map(|why| mask.text(why))
}

async fn connected(
    shared: &Arc<Shared>,
    remembered: Option<Protocol>,
    mask: Arc<Mask>,
) -> Option<String> {
    let changed = Arc::new(Notify::new());
    let handler = Handler {
        server: shared.name.clone(),
        routes: Arc::default(),
        changed: changed.clone(),
        declined: Arc::new(Once::new()),
        mask,
    };
    let connecting = Box::pin(shared.target.connect(&handler, remembered));
    let connection = tokio::select! {
        connection = connecting => connection,
        () = shared.stop.cancelled() => return None,
    };
    let connection = match connection {
        Ok(connection) => connection,
        Err(why) => return Some(why),
    };
    shared.remember(connection.protocol).await;
    // Each list is to come from the server: it also shows that the server is there.
    let peer = connection.service.peer();
    peer.set_response_cache_config(ClientCacheConfig::disabled())
        .await;
    let (over, follow_over) = watch::channel(None);
    let live = Live {
        server: shared.name.clone(),
        peer: connection.service.peer().clone(),
        routes: handler.routes,
        mask: handler.mask,
        changed,
        over: connection.process.is_some().then_some(follow_over),
    };
    Box::pin(watched(shared, connection, live, &over)).await
}

async fn watched(
    shared: &Arc<Shared>,
    connection: Connection,
    live: Live,
    why_over: &watch::Sender<Option<String>>,
) -> Option<String> {
    let Connection {
        service,
        mut process,
        protocol,
    } = connection;
    let close = service.cancellation_token();
    let mut over = Box::pin(service.waiting());
    let mut is_over = false;
    let ended = tokio::select! {
        _ = &mut over => {
            is_over = true;
            Some(reason(process.as_mut()).await)
        }
        why = follow(shared, &live, protocol) => Some(match live.peer.is_transport_closed() {
            // How a program ended says more.
            true => reason(process.as_mut()).await,
            false => why,
        }),
        () = shared.stop.cancelled() => None,
    };
    why_over.send_replace(ended.clone());
    shared.now().live = None;
    if !is_over {
        close.cancel();
        // What is left of it ends with its future.
        _ = tokio::time::timeout(CLOSE, over).await;
    }
    if let Some(process) = process {
        process.end().await;
    }
    ended
}

/// Why a connection is over.
async fn reason(process: Option<&mut Process>) -> String {
    let Some(process) = process else {
        return "closed the connection".to_owned();
    };
    match process.why_over().await {
        Some(why) => why,
        None => format!("closed its standard output{}", process.last_words().await),
    }
}

/// Lists the tools, and again whenever they may have changed. Returns why that is no longer possible.
async fn follow(shared: &Arc<Shared>, live: &Live, protocol: Protocol) -> String {
    let time = Duration::from_millis(shared.target.config.start_ms);
    let mut subscription = None;
    let (mut is_first, mut is_reported) = (true, false);
    loop {
        let listed = match list::tools(&live.peer, &shared.target).await {
            Ok(listed) => listed,
            Err(why) if is_first || live.routes.lock().await.is_empty() => return why,
            // It may do one thing at a time, and a call is under way.
            Err(_) => {
                tokio::time::sleep(LIST_PAUSE).await;
                continue;
            }
        };
        let at = Instant::now();
        let holds = holds(shared, listed.holds);
        pin_first(shared, &listed, &mut is_reported).await;
        take(shared, listed, live);
        shared.in_thread(Shared::publish).await;
        if is_first {
            is_first = false;
            // Before the log: its fields live until the line is written, and so would two guards.
            let (tools, left_out) = shared.counts();
            tracing::info!(
                server = &*shared.name,
                protocol = protocol.name(),
                tools,
                left_out,
                "server connected"
            );
            subscription = subscribe(&live.peer, protocol, time).await;
        }
        tokio::select! {
            () = live.changed.notified() => {}
            () = next(&mut subscription) => {}
            () = not_pinned(shared) => {}
            () = tokio::time::sleep(holds) => {}
        }
        tokio::time::sleep_until(at + LIST_PAUSE).await;
    }
}

/// Has the first tools of a server pinned before they are listed. A failure is reported once: it is tried again.
async fn pin_first(shared: &Shared, list: &List, is_reported: &mut bool) {
    if shared.allowances.is_pinned(&shared.pinned) {
        return;
    }
    let first = pins::of(list.tools.iter().map(|(_, spec)| spec));
    let pinned = shared.allowances.pin_first(&shared.pinned, first).await;
    if let Err(error) = &pinned
        && !*is_reported
    {
        tracing::warn!(server = &*shared.name, %error, "first tools of a server not pinned");
    }
    *is_reported = pinned.is_err();
}

/// Ends when the server has tools and none of them is pinned: memory could not store the pins, or has lost them.
async fn not_pinned(shared: &Shared) {
    let Some(mut changes) = shared.allowances.changes() else {
        return std::future::pending().await;
    };
    while shared.now().tools.is_empty() || shared.allowances.is_pinned(&shared.pinned) {
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// How long a list is good for.
fn holds(shared: &Shared, said: Option<Duration>) -> Duration {
    let said = said.map(|it| it.clamp(SHORTEST_HOLD, LONGEST_HOLD));
    match shared.target.config.is_program() {
        true => said.unwrap_or(LONGEST_HOLD),
        false => said.unwrap_or(HTTP_HOLD).min(HTTP_HOLD),
    }
}

/// Asks for a notification of each change, where the protocol needs that.
async fn subscribe(
    peer: &Peer<RoleClient>,
    protocol: Protocol,
    time: Duration,
) -> Option<Subscription> {
    let info = peer.peer_info()?;
    let changes = info.capabilities.tools.as_ref()?.list_changed == Some(true);
    if protocol != Protocol::V20260728 || !changes {
        return None;
    }
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = Some(true);
    // Without it, the list is asked for again in time.
    tokio::time::timeout(time, peer.listen(filter))
        .await
        .ok()?
        .ok()
}

/// Ends when the server says that its tools changed; never without a subscription.
async fn next(subscription: &mut Option<Subscription>) {
    while let Some(current) = subscription {
        match current.next().await {
            Ok(Some(ServerNotification::ToolListChangedNotification(_))) => return,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => *subscription = None,
        }
    }
    std::future::pending().await
}

/// Makes the tools of a list those of the source, which has to be published then.
fn take(shared: &Arc<Shared>, mut list: List, live: &Live) {
    let lines = list.left_out(&shared.target).into_iter();
    let left_out: Vec<String> = lines.map(|line| live.mask.text(line)).collect();
    let mut now = shared.now();
    let mut known: BTreeMap<String, Arc<McpTool>> = BTreeMap::new();
    for tool in std::mem::take(&mut now.tools) {
        known.insert(tool.spec().name.clone(), tool);
    }
    let tools = list
        .tools
        .into_iter()
        .map(|(remote, spec)| match known.remove(&spec.name) {
            // What was compiled for it stays.
            Some(tool) if *tool.spec() == spec => tool,
            _ => Arc::new(McpTool::new(spec, remote, shared.clone())),
        });
    now.tools = tools.collect();
    now.left_out = left_out;
    now.live = Some(live.clone());
    now.state = SourceState::Ready;
}
