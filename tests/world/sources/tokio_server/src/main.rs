// SPDX-License-Identifier: MIT
// Tasks on a runtime of several threads, which exchange messages through channels. Prints a sum.
use tokio::sync::mpsc;

#[inline(never)]
fn build_message(number: u64) -> Vec<u8> {
    (0..(number % 900 + 10)).map(|each| (each ^ number) as u8).collect()
}

#[tokio::main(worker_threads = 3)]
async fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(300);
    let mut sum = 0u64;
    for round in 0..rounds {
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(16);
        for task in 0..8u64 {
            let sender = sender.clone();
            tokio::spawn(async move {
                for number in 0..40 {
                    sender.send(build_message(round * 320 + task * 40 + number)).await.unwrap();
                }
            });
        }
        drop(sender);
        while let Some(message) = receiver.recv().await {
            sum = sum.wrapping_add(message.iter().map(|each| *each as u64).sum::<u64>());
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    println!("{sum}");
}
