(* SPDX-License-Identifier: MIT *)
(* Bigarrays, whose memory is malloc's, and the OCaml heap. Prints a sum. *)
let () =
  let rounds = if Array.length Sys.argv > 1 then int_of_string Sys.argv.(1) else 300 in
  let sum = ref 0 in
  for round = 1 to rounds do
    let a = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (1000 + round) in
    for i = 0 to 999 + round do a.{i} <- i * round land 255 done;
    let l = List.init 500 (fun i -> string_of_int (i * round)) in
    sum := !sum + a.{round} + List.fold_left (fun t s -> t + String.length s) 0 l
  done;
  print_endline (string_of_int !sum)
