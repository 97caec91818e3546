//! OneJob's own binaries as processes: started, watched, frozen, killed.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{SOON, eventually};

/// A running process; killed with the value.
pub struct Process {
    name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Where it serves, if it does.
    pub listen: Option<String>,
    /// Where its admin port is, if it has one.
    pub admin: Option<String>,
}

/// A binary of this workspace: `./dev test` builds them before the tests.
///
/// # Panics
///
/// If it was not built.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let path = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --workspace --bins",
        path.display()
    );
    path
}

impl Process {
    /// Starts a binary and waits for its log line "listening".
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub async fn start(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(binary(name))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output")).lines();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let listening = async {
            while let Some(line) = stdout.next_line().await.expect("its log") {
                lines.lock().unwrap().push(line.clone());
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                if line["message"] == "listening" {
                    return line;
                }
            }
            panic!("{name} ended before it listened: {:#?}", lines.lock().unwrap());
        };
        let line = timeout(SOON, listening).await.expect("it listens soon");
        let kept = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok(Some(line)) = stdout.next_line().await {
                kept.lock().unwrap().push(line);
            }
        });
        let url = |field: &str| line[field].as_str().map(|address| format!("http://{address}"));
        Self {
            name: name.to_owned(),
            child,
            lines,
            listen: url("listen"),
            admin: url("admin"),
        }
    }

    /// Waits until it is ready.
    pub async fn ready(self) -> Self {
        let url = format!("{}/readyz", self.admin.as_ref().expect("an admin port"));
        eventually(&format!("{} is ready", self.name), async || {
            reqwest::get(&url)
                .await
                .is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        self
    }

    /// What it has logged so far, one JSON object a line.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a log line that contains `text`.
    pub async fn logged(&self, text: &str) {
        eventually(&format!("{} logs {text:?}", self.name), async || {
            self.lines.lock().unwrap().iter().any(|line| line.contains(text))
        })
        .await;
    }

    /// The value of a metric, added up over the series that have all these labels; none if there is no such series.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let url = format!("{}/metrics", self.admin.as_ref().expect("an admin port"));
        let text = reqwest::get(&url)
            .await
            .expect("/metrics")
            .text()
            .await
            .expect("a text");
        let values: Vec<f64> = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
            .filter(|line| {
                labels
                    .iter()
                    .all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
            })
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// If it has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    /// Sends it a signal by name, such as `STOP`, `CONT`, `TERM`, `KILL`.
    ///
    /// # Panics
    ///
    /// If it can't be sent.
    pub async fn signal(&self, signal: &str) {
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", self.pid())])
            .status()
            .await;
        assert!(sent.expect("a shell").success(), "kill -{signal}");
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Panics
    ///
    /// If it can't be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("a killed process");
    }

    /// SIGTERM, and how it ended.
    ///
    /// # Panics
    ///
    /// If it does not end [`SOON`].
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM").await;
        let ended = timeout(SOON, self.child.wait()).await;
        ended.expect("it ends soon").expect("its status")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The log of a test that fails says what happened.
        if std::thread::panicking() {
            let lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let last = lines.len().saturating_sub(40);
            eprintln!("--- {}, its last lines\n{}", self.name, lines[last..].join("\n"));
        }
    }
}
