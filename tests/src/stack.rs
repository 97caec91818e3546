//! Everything that a test of the whole needs: database, virtual host, simulator, configuration, keys. The processes are
//! the test's own to start and to kill.

use std::path::Path;
use std::time::Duration;

use onejob_common::config::Config;
use onejob_common::contract::Contracts;
use onejob_common::store::api_key::{NewKey, Role};
use onejob_common::store::certificate::Gate;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::broker::Vhost;
use crate::client::Client;
use crate::database::Database;
use crate::install_tls;
use crate::process::Process;
use crate::simulator::Simulator;

/// The default contract.
pub const TRIAGE: &str = "ticket-triage@1";
/// A worker without a heartbeat for so long counts as dead.
pub const DEAD_AFTER: Duration = Duration::from_millis(1500);

const CONFIG: &str = r#"
[contracts]
dir = "CONTRACTS"

[broker]
heartbeat_s = 1

[worker]
heartbeat_ms = 250
dead_after_ms = 1500
drain_ms = 5000

[reconciler]
tick_ms = 50
republish_after_ms = 1500

[providers.primary]
adapter = "openai"
base_url = "SIMULATOR/v1"
model = "sim-primary"
stream = true
timeout_ms = 30000

[providers.backup]
adapter = "openai"
base_url = "SIMULATOR/v1"
model = "sim-backup"
timeout_ms = 30000
"#;

/// What the processes of one test share.
pub struct Stack {
    /// PostgreSQL.
    pub database: Database,
    /// RabbitMQ.
    pub vhost: Vhost,
    /// The providers.
    pub simulator: Simulator,
    directory: TempDir,
}

impl Stack {
    /// Services and configuration, and no process yet.
    ///
    /// # Panics
    ///
    /// If they are not to be had.
    pub async fn create() -> Self {
        Self::configured(|text| text).await
    }

    /// With another configuration.
    ///
    /// # Panics
    ///
    /// If the services are not to be had.
    pub async fn configured(change: impl FnOnce(String) -> String) -> Self {
        install_tls();
        let (database, vhost, simulator) = tokio::join!(Database::create(), Vhost::create(), Simulator::start());
        let directory = tempfile::tempdir().expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let contracts = root.join("contracts");
        let text = CONFIG
            .replace("CONTRACTS", contracts.to_str().expect("a path of text"))
            .replace("SIMULATOR", &simulator.url);
        std::fs::write(directory.path().join("onejob.toml"), change(text)).expect("a file");
        Self {
            database,
            vhost,
            simulator,
            directory,
        }
    }

    /// Services, an API, a worker and a reconciler.
    ///
    /// # Panics
    ///
    /// If they do not come up.
    pub async fn up() -> (Self, Process, Process, Process) {
        let stack = Self::create().await;
        let (api, worker, reconciler) = tokio::join!(stack.api(), stack.worker(), stack.reconciler());
        (stack, api, worker, reconciler)
    }

    async fn start(&self, name: &str, arguments: &[&str], database_url: &str, amqp_url: &str) -> Process {
        let config = self.directory.path().join("onejob.toml");
        let variables = [
            ("DATABASE_URL", database_url),
            ("AMQP_URL", amqp_url),
            ("ONEJOB_CONFIG", config.to_str().expect("a path of text")),
        ];
        let process = Process::start(name, arguments, &variables).await;
        process.ready().await
    }

    /// Starts an API process.
    pub async fn api(&self) -> Process {
        self.api_through(&self.database.url).await
    }

    /// Starts an API process with another way to the database.
    pub async fn api_through(&self, database_url: &str) -> Process {
        let arguments = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        self.start("onejob-api", &arguments, database_url, &self.vhost.url)
            .await
    }

    /// Starts a worker that calls providers.
    pub async fn worker(&self) -> Process {
        self.worker_through(&self.database.url, &self.vhost.url).await
    }

    /// Starts a worker with other ways to the services.
    pub async fn worker_through(&self, database_url: &str, amqp_url: &str) -> Process {
        let arguments = ["--role", "attempts", "--admin-listen", "127.0.0.1:0"];
        self.start("onejob-worker", &arguments, database_url, amqp_url).await
    }

    /// Starts a reconciler.
    pub async fn reconciler(&self) -> Process {
        let arguments = ["--role", "reconciler", "--admin-listen", "127.0.0.1:0"];
        self.start("onejob-worker", &arguments, &self.database.url, &self.vhost.url)
            .await
    }

    async fn client(&self, api: &Process, owner: &str, role: Role) -> Client {
        let key = NewKey {
            owner: owner.parse().unwrap(),
            role,
            name: "test".to_owned(),
        };
        let secret = self.database.store.create_key(&key).await.unwrap();
        Client::new(api.listen.as_ref().expect("an address"), secret.expose())
    }

    /// A new key of an owner, at an API process.
    ///
    /// # Panics
    ///
    /// If the database refuses it.
    pub async fn producer(&self, api: &Process, owner: &str) -> Client {
        self.client(api, owner, Role::Producer).await
    }

    /// A new operator's key, at an API process.
    ///
    /// # Panics
    ///
    /// If the database refuses it.
    pub async fn operator(&self, api: &Process) -> Client {
        self.client(api, "operations", Role::Operator).await
    }

    /// Writes a valid certificate.
    ///
    /// # Panics
    ///
    /// If configuration or database refuse it.
    pub async fn certify(&self, provider: &str, contract: &str) {
        let config = Config::load(&self.directory.path().join("onejob.toml")).unwrap();
        let contracts = Contracts::load(&config.contracts.dir).unwrap();
        let gate = Gate::new(&config, &contracts);
        let (contract, provider) = (contract.parse().unwrap(), provider.parse().unwrap());
        let (of_contract, of_provider) = gate.digests(&contract, &provider).unwrap();
        let store = &self.database.store;
        let id = store
            .begin_certification(&contract, &provider, of_contract, of_provider)
            .await
            .unwrap();
        let hour = Duration::from_secs(3600);
        assert!(store.finish_certification(id, true, &[], hour).await.unwrap());
    }
}

/// An intent for the default contract on `primary`.
#[must_use]
pub fn intent(message: &str) -> Value {
    intent_with(message, json!({}))
}

/// An intent with a policy.
#[must_use]
pub fn intent_with(message: &str, policy: Value) -> Value {
    json!({"contract": TRIAGE, "provider": "primary", "input": {"message": message}, "policy": policy})
}
