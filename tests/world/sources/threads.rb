# SPDX-License-Identifier: MIT
# Threads with strings and hashes. Prints a sum.
rounds = (ARGV[0] || 30).to_i
def fill_basket(seed)
  basket = {}
  500.times { |i| basket["key#{(i * seed) % 997}"] = "v" * ((i * 31) % 400) }
  basket.values.sum(&:size)
end
puts rounds.times.sum { |round| 4.times.map { |t| Thread.new { fill_basket(round * 4 + t + 1) } }.sum(&:value) }
