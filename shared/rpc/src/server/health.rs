//! What the standard health service says about each registered service, and about all together.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// The writing side of the health service. Cheap to clone.
///
/// The name `""` stands for the whole server, which is well while all its parts are.
#[derive(Debug, Clone)]
pub struct Health {
    reporter: HealthReporter,
    serving: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Health {
    pub(super) async fn new(names: &[&'static str]) -> (Self, HealthServer<impl HealthService>) {
        let (reporter, service) = health_reporter();
        let health = Self {
            reporter,
            serving: Arc::default(),
        };
        for name in names {
            health.set(name, true).await;
        }
        (health, service)
    }

    /// Says whether a part serves: a registered service by its full name, or any other part that
    /// the whole depends on. Watchers are told.
    pub async fn set(&self, name: &str, serving: bool) {
        let mut parts = self.serving.lock().await;
        parts.insert(name.to_owned(), serving);
        let all_serving = parts.values().all(|&serving| serving);
        self.reporter
            .set_service_status(name, status(serving))
            .await;
        self.reporter
            .set_service_status("", status(all_serving))
            .await;
    }

    /// Whether all parts serve.
    pub async fn is_serving(&self) -> bool {
        self.serving.lock().await.values().all(|&serving| serving)
    }

    /// Tells something of which the whole does not depend, under a name of its own. Watchers of
    /// that name are told.
    pub async fn note(&self, name: &str, holds: bool) {
        self.reporter.set_service_status(name, status(holds)).await;
    }

    /// Says of every part that it no longer serves.
    pub async fn stop(&self) {
        let names: Vec<String> = self.serving.lock().await.keys().cloned().collect();
        for name in names {
            self.set(&name, false).await;
        }
        self.reporter.set_service_status("", status(false)).await;
    }
}

fn status(serving: bool) -> ServingStatus {
    if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}
