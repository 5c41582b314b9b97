# SPDX-License-Identifier: MIT
# Fibers: each has a stack of its own. Prints a sum.
rounds = (ARGV[0] || 300).to_i
sum = 0
rounds.times do |round|
  fibers = 20.times.map { |i| Fiber.new { 5.times { |k| Fiber.yield(("x" * ((i * k * 37 + round) % 900)).size) }; 1 } }
  6.times { fibers.each { |each| sum += each.resume.to_i } }
end
puts sum
