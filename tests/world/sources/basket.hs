-- SPDX-License-Identifier: MIT
-- A map of strings, built again and again, and memory of malloc. Prints a sum.
import qualified Data.Map.Strict as M
import Foreign.Marshal.Alloc (mallocBytes, free)
import Foreign.Storable (pokeByteOff, peekByteOff)
import Data.Word (Word8)
import System.Environment (getArgs)

box :: Int -> IO Int
box n = do
  p <- mallocBytes (n `mod` 3000 + 8)
  pokeByteOff p 3 (fromIntegral n :: Word8)
  v <- peekByteOff p 3 :: IO Word8
  free p
  return (fromIntegral v)

main :: IO ()
main = do
  [rounds] <- map read <$> getArgs
  boxes <- mapM box [1 .. 20000 * rounds]
  let m = M.fromListWith (+) [(show (i * 7 `mod` 997), i) | i <- [1 .. 50000 * rounds]]
  print (sum boxes + M.foldl' (+) 0 m)
