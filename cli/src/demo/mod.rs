//! `onejob demo`: the story of somebody who was billed twice, told on a running stack. Each step is checked; the exit status
//! is 0 only if every one held.

mod stack;
mod story;

use anyhow::{Result, bail};

pub use stack::Args;
use stack::Stack;

pub async fn run(args: Args) -> Result<()> {
    let stack = Stack::new(&args)?;
    stack.forget().await?;
    println!(
        "\nOneJob in four scenes. A person clicks a button, nothing happens, and they click again. Elsewhere that is two GPU\n\
         jobs, two bills and an afternoon of mixed-up data.\n"
    );
    let mut broken = Vec::new();
    let scenes: [(&str, story::Scene); 4] = [
        ("1. The double click", |stack| Box::pin(story::double_click(stack))),
        ("2. The same key with another input", |stack| {
            Box::pin(story::other_input(stack))
        }),
        ("3. Silence, and the fallback button", |stack| {
            Box::pin(story::silence(stack))
        }),
        ("4. The race, in reverse order", |stack| {
            Box::pin(story::reverse_order(stack))
        }),
    ];
    for (title, scene) in scenes {
        println!("== {title}");
        match scene(&stack).await {
            Ok(()) => println!("   It held.\n"),
            Err(error) => {
                println!("   IT DID NOT HOLD: {error:#}\n");
                broken.push(title);
            }
        }
    }
    println!("== What the dashboards show (/metrics of all processes, added up)");
    for line in stack.figures().await? {
        println!("   {line}");
    }
    if broken.is_empty() {
        println!("\nEvery scene held: one click, one job, one result.");
        return Ok(());
    }
    bail!("these scenes did not hold: {}", broken.join("; "))
}
