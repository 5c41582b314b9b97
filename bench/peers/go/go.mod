module tarn.bench/recyclers

go 1.19
