//! A node on its listeners: served, drained and closed in one order.

pub(crate) mod socket;

use crate::error::CliError;
use crate::node::Node;
use axum::Router;
use cairn_rpc::{Listener, Server};
use socket::Socket;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longer than any drain: [`Serving::finish`] ends what remains of a listener.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How long answers may take to reach their clients once the work has ended.
const MOMENT: Duration = Duration::from_millis(500);
/// The same at the socket beside the store, whose clients attach again at once.
const SOCKET_MOMENT: Duration = Duration::from_millis(200);
/// How long the store may take to close.
const CLOSE: Duration = Duration::from_secs(5);

/// A node with the listeners that it is served on.
#[derive(Debug)]
pub struct Serving {
    node: Node,
    socket: Option<Socket>,
    listeners: Vec<(JoinHandle<()>, Duration)>,
    stop: CancellationToken,
}

impl Serving {
    /// The node without a listener.
    pub fn new(node: Node) -> Self {
        Self {
            node,
            socket: None,
            listeners: Vec::new(),
            stop: CancellationToken::new(),
        }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Serves the public services on a socket at the path. The caller has the store's lock.
    ///
    /// # Errors
    /// A path that cannot be bound.
    pub fn listen_at(&mut self, path: &Path) -> Result<(), CliError> {
        let (socket, listener) = Socket::bind(path)?;
        self.socket = Some(socket);
        let serving = serve(listener, self.node.public().clone(), &self.stop);
        self.listeners.push((serving, SOCKET_MOMENT));
        Ok(())
    }

    /// Serves on the listeners for clients and for services, with the pages. Beside the socket of a store, clients are
    /// admitted until `stop`: the next process that holds the store serves them. Elsewhere connections
    /// are accepted until the node has drained.
    pub fn listen(
        &mut self,
        public: Option<TcpListener>,
        internal: Option<TcpListener>,
        pages: Option<&Router>,
        stop: &CancellationToken,
    ) {
        let (node, drained) = (&self.node, &self.stop);
        let stop = if self.socket.is_some() { stop } else { drained };
        let with_pages = |server: &Server| match pages {
            Some(pages) => server.clone().with_pages(pages.clone()),
            None => server.clone(),
        };
        let public = public.map(|listener| serve(listener, with_pages(node.public()), stop));
        let internal =
            internal.map(|listener| serve(listener, with_pages(node.internal()), drained));
        for serving in public.into_iter().chain(internal) {
            self.listeners.push((serving, MOMENT));
        }
    }

    /// Waits until a listener is no longer served. There must be one.
    pub async fn lost(&mut self) {
        let serving = self.listeners.iter_mut().map(|(serving, _)| serving);
        // Its task has logged the reason.
        let _ = futures::future::select_all(serving).await;
    }

    /// Lets running calls end, gives all sessions back, ends the listeners and closes the store. Calls
    /// that do not end within `grace`, or before `given_up` does, are left behind: they are durable, and the next
    /// owner continues them.
    pub async fn finish(mut self, grace: Duration, given_up: impl Future<Output = ()>) {
        if let Some(socket) = &self.socket {
            // New clients find no socket and wait for the lock, while those that are here see how
            // their calls end.
            socket.remove();
        }
        self.node.public().health().stop().await;
        let drained = async {
            tokio::select! {
                () = self.node.drain() => {}
                () = given_up => tracing::warn!("left work behind that did not end in time"),
            }
        };
        // What it leaves behind is durable.
        let _ = cairn_boot::drain(drained, grace).await;
        self.stop.cancel();
        for (serving, moment) in &mut self.listeners {
            if !serving.is_finished() && timeout(*moment, &mut *serving).await.is_err() {
                serving.abort();
            }
        }
        if timeout(CLOSE, self.node.close()).await.is_err() {
            tracing::warn!(
                "the store was not closed in time; its log is taken up when it is opened"
            );
        }
    }
}

fn serve(
    listener: impl Into<Listener>,
    server: Server,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let served = server.serve(listener.into(), stop.clone().cancelled_owned(), LONG);
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::error!(%error, "a listener is no longer served");
        }
    })
}
