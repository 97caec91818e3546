//! A way to PostgreSQL that can be shut: what is under way waits, on both sides, as on a network that stalls.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The way; open at first.
pub struct Valve {
    open: watch::Sender<bool>,
}

impl Valve {
    /// Starts one in front of the server of `url`; also gives the address through it.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn before(url: &str) -> (Self, String) {
        let (user, rest) = url.rsplit_once('@').expect("an address with a user");
        let (target, database) = rest.split_once('/').expect("an address with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let through = format!("{user}@{}/{database}", listener.local_addr().expect("an address"));
        let open = watch::Sender::new(true);
        let (target, state) = (target.to_owned(), open.subscribe());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, state) = (target.clone(), state.clone());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(target).await else {
                        return;
                    };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::select! {
                        () = relay(from_client, to_server, state.clone()) => {}
                        () = relay(from_server, to_client, state) => {}
                    }
                });
            }
        });
        (Self { open }, through)
    }

    /// From now on nothing gets through.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    /// What waited goes on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
