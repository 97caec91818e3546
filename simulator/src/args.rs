//! The command line, and the help that is also the manual: `--help` and `GET /` give the same text.

use clap::{CommandFactory, Parser};

/// Speaks the APIs of model providers, with scripted faults and a log of every call.
#[derive(Debug, Parser)]
#[command(name = "onejob-simulator", version, long_about = include_str!("help/about.txt"), after_long_help = include_str!("help/manual.txt"))]
pub struct Args {
    /// Address to listen on. With port 0 a free port is taken; the log line "listening" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub listen: String,
}

/// The text of `--help`, without colours.
pub fn manual() -> String {
    Args::command().render_long_help().to_string()
}
