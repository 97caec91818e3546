//! `onejob keys`: API keys.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use onejob_common::domain::OwnerId;
use onejob_common::store::api_key::{NewKey, Role};
use uuid::Uuid;

use crate::Database;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Makes a key and shows it; it is never shown again
    Create(Create),
    /// Lists keys, without their secrets
    List(Database),
    /// Stops a key from counting, within seconds
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    database: Database,
    /// Whose jobs it sends: the scope of idempotency keys, and what its holder sees
    #[arg(long, value_name = "NAME")]
    owner: OwnerId,
    /// producer sends jobs; operator also sees everybody's and settles unknowns
    #[arg(long, default_value = "producer", value_name = "ROLE")]
    role: Role,
    /// What it is for, in your words
    #[arg(long, default_value = "", value_name = "TEXT")]
    name: String,
    /// Print the key alone
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub struct Revoke {
    #[command(flatten)]
    database: Database,
    /// The key's id, as `onejob keys list` shows it
    id: Uuid,
}

pub async fn run(command: Command) -> Result<()> {
    match command {
        Command::Create(Create {
            database,
            owner,
            role,
            name,
            quiet,
        }) => {
            let new = NewKey { owner, role, name };
            let secret = database
                .store()?
                .create_key(&new)
                .await
                .context("the key could not be made")?;
            if quiet {
                println!("{}", secret.expose());
            } else {
                println!("{}\n", secret.expose());
                println!(
                    "This is the only time that the key of {} ({}) is shown.",
                    new.owner,
                    role.as_str()
                );
            }
        }
        Command::List(database) => {
            println!("{:<36}  {:<20}  {:<9}  {:<20}  name", "id", "owner", "role", "made");
            for record in database.store()?.keys().await? {
                let made = record.created_at.format("%Y-%m-%d %H:%M:%SZ");
                let revoked = record
                    .revoked_at
                    .map_or(String::new(), |at| format!("  (revoked {})", at.format("%F %TZ")));
                let (key, name) = (&record.key, &record.name);
                println!(
                    "{}  {:<20}  {:<9}  {made}  {name}{revoked}",
                    key.id,
                    key.owner.as_str(),
                    key.role.as_str()
                );
            }
        }
        Command::Revoke(Revoke { database, id }) => {
            if !database.store()?.revoke_key(id).await? {
                bail!("there is no key {id} that counts; `onejob keys list` shows them");
            }
            println!("Revoked. API processes notice within their key_cache_ms (5 s unless configured).");
        }
    }
    Ok(())
}
