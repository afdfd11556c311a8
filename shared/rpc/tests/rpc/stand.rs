//! The demo service on each kind of transport.

use crate::demo::{Client, DESCRIPTORS, Demo};
use cairn_rpc::{
    Address, AllowAnonymous, Exposure, Link, Listener, RemoteOptions, Server, ServerBuilder, Unsent,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than any test waits.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Local,
    Tcp,
    Unix,
    /// TCP, to whichever process of the service serves.
    Service,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Local, Self::Tcp, Self::Unix, Self::Service];
    pub(crate) const SOCKETS: [Self; 3] = [Self::Tcp, Self::Unix, Self::Service];
}

pub(crate) struct Stand {
    pub(crate) link: Link,
    /// Where it listens, if it does.
    pub(crate) address: Option<Address>,
    pub(crate) notices: mpsc::UnboundedReceiver<&'static str>,
    unsent: Arc<Mutex<Unsent>>,
    pub(crate) server: Server,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Stand {
    pub(crate) async fn internal(kind: Kind) -> Self {
        Self::new(kind, services(), LONG).await
    }

    pub(crate) async fn new(kind: Kind, exposure: Exposure, grace: Duration) -> Self {
        let (sender, notices) = mpsc::unbounded_channel();
        let demo = Demo::new(sender);
        let unsent = demo.unsent.clone();
        let server = ServerBuilder::new(exposure)
            .register(demo, &DESCRIPTORS)
            .build()
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener: Option<Listener> = match kind {
            Kind::Local => None,
            Kind::Tcp | Kind::Service => {
                Some(TcpListener::bind("127.0.0.1:0").await.unwrap().into())
            }
            Kind::Unix => {
                let path = folder.path().join("cairn.sock");
                Some(UnixListener::bind(path).unwrap().into())
            }
        };
        let shutdown = CancellationToken::new();
        let address = listener.as_ref().map(|it| it.address().unwrap());
        let (link, serving) = match listener {
            None => (server.link(), None),
            Some(listener) => {
                let address = listener.address().unwrap();
                let link = match kind {
                    Kind::Service => Link::to_service("demo", &[address], RemoteOptions::default()),
                    _ => Link::remote(&address),
                };
                let (server, stop) = (server.clone(), shutdown.clone().cancelled_owned());
                let serving =
                    tokio::spawn(async move { server.serve(listener, stop, grace).await.unwrap() });
                (link, Some(serving))
            }
        };
        Self {
            link,
            address,
            notices,
            unsent,
            server,
            shutdown,
            serving,
            _folder: folder,
        }
    }

    pub(crate) fn client(&self) -> Client<Link> {
        Client::new(self.link.clone())
    }

    pub(crate) async fn notice(&mut self) -> &'static str {
        within(self.notices.recv()).await.unwrap()
    }

    /// What the connection of the newest chat has not taken, once there is something.
    pub(crate) async fn unsent(&self) -> Unsent {
        let unsent = self.unsent.lock().unwrap().clone();
        let begun = async {
            while unsent.bytes() == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(begun).await;
        unsent
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(&mut self) {
        within(self.serving.take().unwrap()).await.unwrap();
    }
}

/// The exposure of an internal listener that admits every process.
pub(crate) fn services() -> Exposure {
    Exposure::Services(Arc::new(AllowAnonymous))
}

/// The outcome of something that must not hang.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("this should have ended long ago")
}
