//! The processes: one over a file, and one of each service over Redis.

use crate::support::CAIRN;
use cairn_testkit::cluster::SERVICES;
use cairn_testkit::site::Starting;
use cairn_testkit::{Cluster, PATIENCE, Site, TestStore, free_port};

/// The processes of a site, which are killed and started again.
pub(super) enum World<'a> {
    One {
        site: &'a Site,
        port: u16,
        process: Option<Starting>,
    },
    Five(Cluster<'a>),
}

pub(super) fn site() -> Site {
    Site::new(CAIRN)
}

impl<'a> World<'a> {
    pub(super) fn start(site: &'a Site, store: &TestStore) -> Self {
        if !store.is_file() {
            return Self::Five(Cluster::start(site, &store.variables()));
        }
        let mut world = Self::One {
            site,
            port: free_port(),
            process: None,
        };
        world.kill(0);
        world
    }

    /// Where clients find it, whatever was killed.
    pub(super) fn address(&self) -> String {
        match self {
            Self::One { port, .. } => format!("http://127.0.0.1:{port}"),
            Self::Five(cluster) => cluster.url(),
        }
    }

    /// Kills the orchestrator, or every third time all that there is, and starts it again.
    pub(super) fn kill(&mut self, kill: usize) {
        match self {
            Self::One {
                site,
                port,
                process,
            } => {
                drop(process.take());
                let listen = format!("127.0.0.1:{port}");
                let arguments = ["serve", "--listen", &listen, "--json"];
                let mut begun = site.begin(&arguments, &[], "serve.log");
                let serves = begun.first_line(PATIENCE).is_some();
                assert!(serves, "it does not serve:\n{}", site.tail("serve.log", 15));
                *process = Some(begun);
            }
            Self::Five(cluster) if kill % 3 == 2 => {
                SERVICES.iter().for_each(|service| cluster.kill(service));
                SERVICES
                    .iter()
                    .for_each(|service| cluster.start_again(service));
            }
            Self::Five(cluster) => {
                cluster.kill("orchestrator");
                cluster.start_again("orchestrator");
            }
        }
    }
}
