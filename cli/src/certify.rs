//! `onejob certify`: a provider proves that it keeps a contract, through the real pipeline.
//!
//! Each golden case of the contract becomes a job on that provider: API, queue, worker, provider, check, settle. Its result
//! is held to the output schema, the rules and what the case expects. All of them must hold; the certificate is bound to
//! the digests of the contract and of the provider's configuration.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use onejob_common::contract::{Contract, Contracts, Golden};
use onejob_common::domain::{ContractName, ProviderName};
use onejob_common::store::certificate::{CertificationCheck, Gate};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Client, OperatorApi};
use crate::{ConfigFile, Database};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    api: OperatorApi,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    config: ConfigFile,
    /// The contract, such as ticket-triage@1
    #[arg(long, value_name = "NAME@VERSION")]
    contract: ContractName,
    /// The provider that shall be allowed to take over
    #[arg(long, value_name = "NAME")]
    provider: ProviderName,
    /// Do nothing if it holds a valid certificate
    #[arg(long)]
    if_needed: bool,
    /// How often each case is run
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// How long the certificate counts
    #[arg(long, default_value_t = 30, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=365))]
    valid_days: u32,
    /// How long one case may take
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    case_limit: u64,
}

#[derive(serde::Serialize)]
struct Case<'a> {
    contract: &'a ContractName,
    provider: &'a ProviderName,
    input: &'a RawValue,
    policy: Value,
}

/// The part of a job that certifying looks at; the result stays the bytes that came.
#[derive(serde::Deserialize)]
struct Ended<'a> {
    state: &'a str,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

pub async fn run(args: Args) -> Result<()> {
    let config = args.config.load()?;
    let contracts = Contracts::load(&config.contracts.dir)?;
    let contract = contracts
        .get(&args.contract)
        .with_context(|| format!("there is no contract {}", args.contract))?;
    if config.provider(&args.provider).is_none() {
        bail!(
            "there is no provider {} in {}",
            args.provider,
            args.config.config.display()
        );
    }
    let gate = Gate::new(&config, &contracts);
    let (contract_digest, provider_digest) = gate
        .digests(&args.contract, &args.provider)
        .context("the configuration names neither")?;
    let store = args.database.store()?;
    let pair = format!("{} for {}", args.provider, args.contract);
    if args.if_needed && store.certified(&gate, &args.contract).await?.contains(&args.provider) {
        println!("{pair}: holds a valid certificate already.");
        return Ok(());
    }
    let client = args.api.client()?;
    same_configuration(&client, "/v1/contracts", args.contract.as_str(), contract_digest).await?;
    same_configuration(&client, "/v1/providers", args.provider.as_str(), provider_digest).await?;

    let id = store
        .begin_certification(&args.contract, &args.provider, contract_digest, provider_digest)
        .await?;
    println!(
        "Certifying {pair}: {} cases, {} time(s) each",
        contract.golden().len(),
        args.repeats
    );
    let mut checks = Vec::new();
    for repeat in 1..=args.repeats {
        for (index, case) in contract.golden().iter().enumerate() {
            let name = format!("golden case {:?}, run {repeat}", case.name());
            let key = format!("certify-{id}-{index}-{repeat}");
            let outcome = self::case(&client, &args, contract, case, &key).await;
            let (passed, detail) = match outcome {
                Ok(()) => (true, "kept the contract".to_owned()),
                Err(error) => (false, format!("{error:#}")),
            };
            println!("  {}  {name}: {detail}", if passed { "ok  " } else { "FAIL" });
            checks.push(CertificationCheck { name, passed, detail });
        }
    }
    finish(&store, id, &checks, &args, &pair).await
}

async fn finish(
    store: &onejob_common::store::Store,
    id: Uuid,
    checks: &[CertificationCheck],
    args: &Args,
    pair: &str,
) -> Result<()> {
    let passed = !checks.is_empty() && checks.iter().all(|check| check.passed);
    let valid_for = Duration::from_secs(u64::from(args.valid_days) * 86_400);
    if !store.finish_certification(id, passed, checks, valid_for).await? {
        bail!("certification {id} had been ended by somebody else");
    }
    if !passed {
        bail!("{pair}: not certified; what failed is above (certification {id})");
    }
    println!("{pair}: certified for {} days (certification {id}).", args.valid_days);
    Ok(())
}

/// One case through the real pipeline.
async fn case(client: &Client, args: &Args, contract: &Contract, case: &Golden, key: &str) -> Result<()> {
    let input: &RawValue = serde_json::from_str(case.input_text()).context("the case's input")?;
    let limit = Duration::from_secs(args.case_limit);
    // An idempotency key that is this case's own: certifying again asks again.
    let body = Case {
        contract: &args.contract,
        provider: &args.provider,
        input,
        policy: json!({"max_attempts": 1}),
    };
    let job = client.submit(&body, key).await?.success()?;
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    client.wait(&id, limit).await?;
    let answer = client
        .ask::<Value>(reqwest::Method::GET, &format!("/v1/jobs/{id}"), None, None)
        .await?;
    let ended: Ended<'_> = serde_json::from_str(&answer.text).context("the API's answer")?;
    let Some(result) = ended.result else {
        let why = ended.error.map_or(String::new(), |error| {
            format!(": {}", error["detail"].as_str().unwrap_or("-"))
        });
        bail!("job {id} is {} after {} s{why}", ended.state, args.case_limit);
    };
    contract.check_golden(case, Bytes::from(result.get().to_owned()))?;
    Ok(())
}

/// The API must run what is certified: else the certificate speaks of something that nobody tried.
async fn same_configuration(client: &Client, path: &str, name: &str, digest: &[u8; 32]) -> Result<()> {
    let page = client.get(path).await?;
    let item = page["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["name"] == name);
    let theirs = item.and_then(|item| item["digest"].as_str());
    if theirs != Some(hex::encode(digest).as_str()) {
        bail!("the API is configured with another {name} than this command; give both the same configuration");
    }
    Ok(())
}
