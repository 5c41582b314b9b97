-- SPDX-License-Identifier: MIT
-- A program for the tests of names: it allocates blocks of 100,000 bytes and more through call paths of each kind: a loop, a
-- recursion, a C function that calls back, a protected call, coroutines, a metamethod, text without a file.
local BYTES = 100000

local function row(number)
  return string.rep("x", BYTES + number)
end

local function make(count)
  local rows = {}
  for number = 1, count do rows[number] = row(number) end
  return rows
end

local function deep(levels)
  local kept = levels == 0 and row(levels) or deep(levels - 1)
  return kept
end

local function compare(a, b)
  local text = row(a)
  return #text + a < #text + b
end

local function generate(count)
  for number = 1, count do coroutine.yield(row(number)) end
end

local function from_coroutine(count)
  local rows = {}
  local next_row = coroutine.wrap(generate)
  for number = 1, count do rows[number] = next_row(count) end
  return rows
end

local Rows = setmetatable({}, { __index = function(_, key)
  local text = row(#key)
  return text
end })

local function main()
  local kept = { make(20), from_coroutine(20) }
  for number = 1, 20 do kept[#kept + 1] = deep(30) end
  local object = { load_row = function(self, number)
    local text = row(number)
    return self and text
  end }
  kept[#kept + 1] = object:load_row(5)
  table.sort({ 5, 3, 8, 1, 9, 2 }, compare)
  local _, rows = pcall(make, 20)
  kept[#kept + 1] = rows
  for number = 1, 20 do kept[#kept + 1] = Rows["key" .. number] end
  kept[#kept + 1] = load("return string.rep('y', 100001)")()
  return #kept
end

print(main())
